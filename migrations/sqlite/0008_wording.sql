-- What sentences about an effect need as facts.

-- What the latest attempt at an e-mail hands it over to: settings change, and a folder that sends nothing is no mail service.
alter table effects add column via text not null default 'mail_service' check (via in ('mail_service', 'outbox'));
-- Why nobody can tell whether it has happened; null also where a program of an older version wrote the outcome.
alter table effects add column unconfirmed text check (unconfirmed in ('unanswered', 'unattended', 'copied'));
-- Whether a person's word is all that has settled it, and evidence that came after that word and says otherwise.
alter table effects add column attested integer not null default 0 check (attested in (0, 1));
alter table effects add column contradiction text;

-- When the copy was restored in which an e-mail of this job was not proved. It stays when somebody lets the job go on.
alter table jobs add column restored_at text;

-- What was found out about an effect never changes; what contradicts a person's word is added beside it, once.
drop trigger effects_done_stay;
create trigger effects_done_stay
    after update of outcome, not_done, unconfirmed, attempts, epoch, via, evidence, attested, changed_at on effects
    when old.outcome = 'done' begin
    select raise(abort, 'an effect that is done never changes');
end;
create trigger effects_contradiction_stays after update of contradiction on effects
    when old.contradiction is not null and new.contradiction is not old.contradiction begin
    select raise(abort, 'a contradiction stays');
end;
