create function pgq._check_settings(settings jsonb, declared pgq._setting[])
returns void
language plpgsql stable parallel safe
as $$
declare
    setting pgq._setting;
    value text;
begin
    foreach setting in array declared loop
        value := settings ->> setting.name;
        continue when value is null;
        case setting.kind
            when 'interval' then
                perform pgq._check_interval(setting.name, value::interval, setting.least = 0);
            when 'window' then
                perform pgq._check_idempotency_window(value::interval);
            when 'count' then
                perform pgq._check_count(setting.name, value::bigint, setting.least, setting.most);
            when 'share' then
                perform pgq._check_share(setting.name, value::double precision);
            when 'word' then
                if array_position(setting.words, value collate "C") is null then
                    raise exception 'argument "%" must be % or %',
                        setting.name, array_to_string(trim_array(setting.words, 1), ', '),
                        setting.words[cardinality(setting.words)]
                        using errcode = '22023';
                end if;
            when 'flag' then
                null;
        end case;
    end loop;
end
$$;

comment on function pgq._check_settings(jsonb, pgq._setting[]) is
'Raises 22023 for a setting outside its declared bounds; each is checked by itself.';
