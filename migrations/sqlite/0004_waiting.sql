-- Whose jobs wait, from person to person: whoever has as many at work as anybody may is passed over with all that they have.
create index jobs_waiting on jobs (owner_id, id) where finished_at is null and lease_owner is null;
