-- Copies that took the place of this database: a backup that was put back, a standby that had not everything.
create table restores (
    id integer primary key,
    -- When the copy was made; null where nobody knows.
    copied_at text,
    -- Null in a backup that nobody has opened: whoever opens it first sets aside what is open in it.
    restored_at text
) strict;
