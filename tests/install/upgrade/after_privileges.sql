grant execute on function pgq._figure(bigint) to public;
grant execute on function pgq.comes_for_all() to public;
