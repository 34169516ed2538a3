-- Only the owner may use anything until he grants it. An upgrade does this for what is new in it.
do $revoke_others$
begin
    perform pgq._revoke_others(null);
end
$revoke_others$;
-- Whoever reads a view needs the right to the functions in it.
grant execute on function pgq._clock() to public;
grant execute on function pgq._partition_figures(
    uuid, bigint, bigint, integer, bigint, bigint, timestamptz
) to public;
grant execute on function pgq._visible_topics(uuid, text, text) to public;
grant execute on function pgq._visible_queues(uuid, text, text) to public;
