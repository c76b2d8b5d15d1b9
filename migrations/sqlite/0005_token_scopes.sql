-- What a token may do, as scopes with a space between them (RFC 6749 3.3). A token that says nothing may do all that its owner may
-- do: so do those that were made before, and those that an older version beside this one makes. An older version lets every
-- token do everything, until its machine is brought up to date too.
alter table tokens add column scopes text not null default 'reports:read reports:write';
