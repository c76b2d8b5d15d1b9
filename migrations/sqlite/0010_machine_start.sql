-- When the machine was started that leases and holds are timed on, as the clock had it that its processes agree on. One row, of the
-- latest start.
create table machine_start (
    boot blob primary key not null,
    started_at text not null
) strict;
