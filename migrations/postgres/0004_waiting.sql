-- Whose jobs wait, from person to person: whoever has as many at work as anybody may is passed over with all that they have.
create index jobs_waiting on jobs (owner_id, id) where finished_at is null and lease_owner is null;

-- The holds that are due next, and nothing else: with more in the index, or less in the condition, PostgreSQL would rather read all
-- open jobs while it has no statistics.
drop index jobs_holds;
create index jobs_holds on jobs (hold_until) where hold_until is not null and finished_at is null and set_aside_at is null;
