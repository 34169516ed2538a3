create function pgq._keep_memory()
returns integer
language sql immutable parallel safe
as $$ select octet_length(repeat(repeat(' ', 1000), 4000)) $$;

comment on function pgq._keep_memory() is
'Has this session keep the memory of a bulk call for the next one, some megabytes at most. The C
library of Linux gives freed memory back at once unless it has freed a larger piece before, and
taking it again page by page costs up to half of such a call. It is immutable: a statement that
calls it does the work when it is planned, once in a session.';
