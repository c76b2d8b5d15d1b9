-- The envelope id of an attempt at an e-mail (RFC 3461): random, on record before the first byte, and shown to nobody, so that a
-- delivery report which names it cannot have been made up. An attempt from before has none, and no report proves anything about it.
alter table attempts add column envelope_id blob;

-- A look may find something that is worth a person's while and proves nothing.
alter table looks add column hint integer not null default 0 check (hint in (0, 1));
