-- What happens after a job has ended: looks for unconfirmed e-mails, decisions by people, withdrawals, corrections, second
-- copies, deletions. SQLite cannot change a constraint, so the tables with new words in theirs are made again, children first.

alter table jobs add column about_job blob references jobs (id) on delete cascade;
-- A worker looks for the next one all the time, by its id: in an order that began with the phase it would read all that ended.
drop index jobs_open;
create index jobs_open on jobs (id) where finished_at is null;
create index jobs_about on jobs (about_job, id) where about_job is not null;

alter table reports add column withdrawn_at text;
alter table reports add column withdrawn_by text;
alter table reports add column withdrawn_why text;

-- The title, the month and the owner stand here as well, since the history of effects outlives the deletion of a job.
create table new_effects (
    job_id blob not null,
    number integer not null,
    kind text not null check (kind in ('model_call', 'report', 'email', 'withdrawal', 'deletion')),
    outcome text not null check (outcome in ('not_started', 'in_flight', 'in_doubt', 'done', 'not_done', 'unconfirmed')),
    not_done text check (not_done in ('refused', 'unreached', 'gave_up', 'broken_off', 'attested')),
    attempts integer not null,
    epoch integer not null,
    evidence text,
    target text not null,
    message_id text,
    job_kind text not null check (job_kind in ('report', 'correction', 'second_copy')),
    job_title text not null,
    job_month text not null,
    owner_email text not null,
    created_at text not null,
    changed_at text not null,
    primary key (job_id, number),
    constraint effects_done_has_evidence check (outcome <> 'done' or coalesce(evidence, '') <> ''),
    constraint effects_not_done_has_reason check ((outcome = 'not_done') = (not_done is not null)),
    constraint effects_doubt_is_email check (outcome <> 'in_doubt' or kind = 'email')
) strict;
insert into new_effects
select effects.job_id, number, kind, outcome, not_done, attempts, effects.epoch, evidence, target, message_id, 'report',
       coalesce(jobs.title, ''), coalesce(jobs.month, substr(effects.created_at, 1, 7)), coalesce(users.email, ''),
       effects.created_at, changed_at
from effects left join jobs on jobs.id = effects.job_id left join users on users.id = jobs.owner_id;

-- `evidence` is what the attempt itself has seen, word for word; what a look or a person has found out later stands beside it.
create table new_attempts (
    job_id blob not null,
    number integer not null,
    attempt integer not null,
    epoch integer not null,
    outcome text not null check (outcome in ('in_flight', 'in_doubt', 'done', 'not_done', 'unconfirmed')),
    evidence text,
    began_at text not null,
    in_doubt_at text,
    ended_at text,
    settled_at text,
    settled_by text,
    primary key (job_id, number, attempt),
    foreign key (job_id, number) references new_effects (job_id, number),
    constraint attempts_settled_whole check ((settled_at is null) = (settled_by is null))
) strict;
insert into new_attempts
select job_id, number, attempt, epoch, outcome, evidence, began_at, in_doubt_at, ended_at, null, null from attempts;

-- A second copy has the bytes of the first message, and with them its Message-ID.
create table new_messages (
    job_id blob not null,
    number integer not null,
    sender text not null,
    recipient text not null,
    message_id text not null,
    sha256 blob not null,
    bytes blob not null,
    created_at text not null,
    primary key (job_id, number),
    foreign key (job_id, number) references new_effects (job_id, number)
) strict;
insert into new_messages select job_id, number, sender, recipient, message_id, sha256, bytes, created_at from messages;

drop table attempts;
drop table messages;
drop table effects;
alter table new_effects rename to effects;
alter table new_attempts rename to attempts;
alter table new_messages rename to messages;

create unique index effects_one_message_per_recipient on effects (job_id, target) where kind = 'email';
create unique index effects_one_withdrawal on effects (job_id) where kind = 'withdrawal';
-- In the order of the list, so that nothing else is read for it, and an empty list costs nothing.
create index effects_open on effects (changed_at, job_id, number) where outcome in ('in_flight', 'in_doubt', 'unconfirmed');
create index effects_by_time on effects (changed_at, job_id, number);
create index effects_by_message_id on effects (message_id) where message_id is not null;
create unique index attempts_one_live on attempts (job_id, number)
    where outcome in ('in_flight', 'in_doubt', 'unconfirmed', 'done');

-- One look at one place (an archive, a log, a mailbox) for one unconfirmed e-mail. `round` counts the looks in the schedule.
-- The row is there before the look, so that no two workers look at the same time; `result` is null until it has ended.
create table looks (
    job_id blob not null,
    number integer not null,
    round integer not null,
    place text not null,
    began_at text not null,
    ended_at text,
    result text check (result in ('found', 'nothing', 'failed')),
    evidence text,
    primary key (job_id, number, round, place),
    foreign key (job_id, number) references effects (job_id, number),
    constraint looks_end_has_result check ((ended_at is null) = (result is null) and (result is null) = (evidence is null))
) strict;

-- What people decided about an effect: who, when, what they saw or why.
create table decisions (
    id integer primary key,
    job_id blob not null,
    number integer not null,
    at text not null,
    by_email text not null,
    decision text not null
        check (decision in ('accepted', 'not_accepted', 'send_again', 'account_now', 'withdraw', 'delete')),
    reason text not null check (reason <> ''),
    foreign key (job_id, number) references effects (job_id, number)
) strict;
create index decisions_of_effect on decisions (job_id, number, id);

-- The history of effects is only ever added to. What is older than the horizon, and whose job is deleted, may go: the horizon
-- follows the settings, and nothing else deletes. These fire after the row's own constraints, which therefore speak first.
create table horizon (
    id integer primary key check (id = 1),
    keep_from text not null
) strict;
insert into horizon values (1, '');

create trigger effects_stay after delete on effects
    when old.changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id) begin
    select raise(abort, 'effects are never deleted');
end;
create trigger effects_intent_stays
    after update of job_id, number, kind, target, message_id, job_kind, job_title, job_month, owner_email, created_at on effects begin
    select raise(abort, 'the intent of an effect never changes');
end;
create trigger effects_done_stay after update on effects when old.outcome = 'done' begin
    select raise(abort, 'an effect that is done never changes');
end;
create trigger attempts_stay after delete on attempts
    when exists (select 1 from effects where job_id = old.job_id and number = old.number
                 and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) begin
    select raise(abort, 'attempts are never deleted');
end;
create trigger attempts_settled_stay after update on attempts when old.outcome in ('done', 'not_done') begin
    select raise(abort, 'an attempt that is settled never changes');
end;
create trigger looks_stay after delete on looks
    when exists (select 1 from effects where job_id = old.job_id and number = old.number
                 and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) begin
    select raise(abort, 'looks are never deleted');
end;
create trigger looks_ended_stay after update on looks when old.result is not null begin
    select raise(abort, 'a look that has ended never changes');
end;
create trigger decisions_stay after delete on decisions
    when exists (select 1 from effects where job_id = old.job_id and number = old.number
                 and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) begin
    select raise(abort, 'decisions are never deleted');
end;
create trigger decisions_never_change after update on decisions begin
    select raise(abort, 'decisions never change');
end;
drop trigger history_of_effects_stays;
create trigger history_of_effects_stays after delete on history
    when old.effect is not null
     and exists (select 1 from effects where job_id = old.job_id and number = old.effect
                 and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) begin
    select raise(abort, 'entries about effects are never deleted');
end;
