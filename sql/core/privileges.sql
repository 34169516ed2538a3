-- Only the owner has privileges until it grants some. An upgrade does this for new objects.
do $revoke_others$
begin
    perform pgq._revoke_others(null);
end
$revoke_others$;
-- Reading a view requires EXECUTE on the functions in it.
grant execute on function pgq._clock() to public;
grant execute on function pgq._partition_figures(
    uuid, bigint, bigint, integer, bigint, bigint, timestamptz
) to public;
grant execute on function pgq._visible_topics(uuid, text, text) to public;
grant execute on function pgq._visible_queues(uuid, text, text) to public;
