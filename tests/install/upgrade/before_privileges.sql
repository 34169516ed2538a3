grant execute on function pgq._figure(bigint) to public;
