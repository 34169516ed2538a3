-- The leaves of a new installation. _open_segment creates more when all of them are in use.
do $leaves$
begin
    for leaf in 0 .. 15 loop
        perform pgq._create_leaf(leaf);
        insert into pgq.leaf (leaf, free)
        values (leaf, true);
    end loop;
end
$leaves$;
