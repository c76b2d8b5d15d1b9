-- What sentences about an effect need as facts.

-- What the latest attempt at an e-mail hands it over to: settings change, and a folder that sends nothing is no mail service.
alter table effects add column via text not null default 'mail_service' check (via in ('mail_service', 'outbox'));
