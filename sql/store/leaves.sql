-- The leaves that an installation starts with: those that statements name. More are made when all
-- of these are in use.
do $leaves$
begin
    for leaf in 0 .. 15 loop
        perform pgq._create_leaf(leaf);
        insert into pgq.leaf (leaf, free)
        values (leaf, true);
    end loop;
end
$leaves$;
