-- Several machines on one database, files outside of it, and copies that were restored from a backup.

-- Null: the bytes are in the row. Otherwise they are in the file store under this key, and `bytes` is empty.
alter table uploads add column stored_as text;
-- Every object belongs to one row. Also the way to all of them that does not lead past the bytes of those that are in rows.
create unique index uploads_stored_as on uploads (stored_as) where stored_as is not null;

-- A job that was open in a backup when that was restored. Nobody here knows what happened to it afterwards, so that nothing of
-- it goes on by itself until a person says so; null for all others.
alter table jobs add column set_aside_at timestamptz;

-- Copies that took the place of this database: a backup that was put back, a standby that had not everything.
create table restores (
    id bigint generated always as identity primary key,
    -- When the copy was made; null where nobody knows.
    copied_at timestamptz,
    -- Null in a backup that nobody has opened: whoever opens it first sets aside what is open in it.
    restored_at timestamptz
);

-- Who is at work, for the limit of jobs for each person; which leases may have run out; which holds end by themselves.
create index jobs_at_work on jobs (owner_id) where lease_owner is not null;
create index jobs_leases on jobs (lease_expires_at) where lease_expires_at is not null;
create index jobs_holds on jobs (hold_until) where hold_until is not null;

-- The newest migration that a program must know to work with this database. A migration that only adds leaves it as it is, so
-- that programs of two versions work side by side while machines are brought up to date one after the other.
create table compatibility (
    id bigint primary key check (id = 1),
    oldest_migration bigint not null
);
insert into compatibility values (1, 3);
