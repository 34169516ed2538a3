-- Nobody may call anything until the owner grants it.
revoke all on all tables in schema pgq from public;
revoke all on all sequences in schema pgq from public;
revoke all on all functions in schema pgq from public;
-- Whoever reads a view needs the right to the functions in it.
grant execute on function pgq._clock() to public;
grant execute on function pgq._partition_figures(
    uuid, bigint, bigint, integer, bigint, bigint, timestamptz
) to public;
grant execute on function pgq._visible_topics(uuid, text, text) to public;
grant execute on function pgq._visible_queues(uuid, text, text) to public;
