-- The bound: the least work that stores the same bytes durably, one table with one bigserial index.
create table message (
    id bigserial primary key,
    payload bytea not null
);
