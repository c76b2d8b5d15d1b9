-- What happens after a job has ended: looks for unconfirmed e-mails, decisions by people, withdrawals, corrections, second
-- copies, deletions.

alter table jobs add column about_job uuid references jobs (id) on delete cascade;
-- A worker looks for the next one all the time, by its id: in an order that began with the phase it would read all that ended.
drop index jobs_open;
create index jobs_open on jobs (id) where finished_at is null;
create index jobs_about on jobs (about_job, id) where about_job is not null;

alter table reports add column withdrawn_at timestamptz;
alter table reports add column withdrawn_by text;
alter table reports add column withdrawn_why text;

-- The title, the month and the owner stand here as well, since the history of effects outlives the deletion of a job.
drop trigger effects_stay on effects;
drop trigger effects_intent_stays on effects;
drop trigger effects_done_stay on effects;
alter table effects
    drop constraint effects_kind_check,
    add constraint effects_kind_check check (kind in ('model_call', 'report', 'email', 'withdrawal', 'deletion')),
    drop constraint effects_not_done_check,
    add constraint effects_not_done_check check (not_done in ('refused', 'unreached', 'gave_up', 'broken_off', 'attested')),
    add column job_kind text not null default 'report' check (job_kind in ('report', 'correction', 'second_copy')),
    add column job_title text not null default '',
    add column job_month text not null default '',
    add column owner_email text not null default '';
update effects set job_month = to_char(created_at at time zone 'utc', 'YYYY-MM');
update effects set job_title = jobs.title, job_month = jobs.month, owner_email = users.email
from jobs join users on users.id = jobs.owner_id where jobs.id = effects.job_id;
alter table effects
    alter column job_kind drop default,
    alter column job_title drop default,
    alter column job_month drop default,
    alter column owner_email drop default;
create unique index effects_one_withdrawal on effects (job_id) where kind = 'withdrawal';
-- In the order of the list, so that nothing else is read for it, and an empty list costs nothing.
drop index effects_open;
create index effects_open on effects (changed_at, job_id, number) where outcome in ('in_flight', 'in_doubt', 'unconfirmed');
create index effects_by_message_id on effects (message_id) where message_id is not null;

-- `evidence` is what the attempt itself has seen, word for word; what a look or a person has found out later stands beside it.
alter table attempts
    add column settled_at timestamptz,
    add column settled_by text,
    add constraint attempts_settled_whole check ((settled_at is null) = (settled_by is null));

-- A second copy has the bytes of the first message, and with them its Message-ID.
alter table messages drop constraint messages_message_id_key;

-- One look at one place (an archive, a log, a mailbox) for one unconfirmed e-mail. `round` counts the looks in the schedule.
-- The row is there before the look, so that no two workers look at the same time; `result` is null until it has ended.
create table looks (
    job_id uuid not null,
    number bigint not null,
    round bigint not null,
    place text not null collate "C",
    began_at timestamptz not null,
    ended_at timestamptz,
    result text check (result in ('found', 'nothing', 'failed')),
    evidence text,
    primary key (job_id, number, round, place),
    foreign key (job_id, number) references effects (job_id, number),
    constraint looks_end_has_result check ((ended_at is null) = (result is null) and (result is null) = (evidence is null))
);

-- What people decided about an effect: who, when, what they saw or why.
create table decisions (
    id bigint generated always as identity primary key,
    job_id uuid not null,
    number bigint not null,
    at timestamptz not null,
    by_email text not null,
    decision text not null
        check (decision in ('accepted', 'not_accepted', 'send_again', 'account_now', 'withdraw', 'delete')),
    reason text not null check (reason <> ''),
    foreign key (job_id, number) references effects (job_id, number)
);
create index decisions_of_effect on decisions (job_id, number, id);

-- The history of effects is only ever added to. What is older than the horizon, and whose job is deleted, may go: the horizon
-- follows the settings, and nothing else deletes.
create table horizon (
    id bigint primary key check (id = 1),
    keep_from timestamptz not null
);
insert into horizon values (1, '-infinity');

-- Refuses with the first argument, unless the effect that the row is about may be forgotten; the second argument is the column
-- with the effect's number.
create function refuse_to_forget() returns trigger language plpgsql as $$
declare
    effect_number bigint := to_jsonb(old) ->> tg_argv[1];
begin
    if exists (select 1 from effects where job_id = old.job_id and number = effect_number
               and (changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id))) then
        raise exception '%', tg_argv[0];
    end if;
    return old;
end $$;
create function refuse_to_forget_effect() returns trigger language plpgsql as $$ begin
    if old.changed_at >= (select keep_from from horizon) or exists (select 1 from jobs where id = old.job_id) then
        raise exception '%', tg_argv[0];
    end if;
    return old;
end $$;

create trigger effects_stay before delete on effects
    for each row execute function refuse_to_forget_effect('effects are never deleted');
create trigger effects_intent_stays
    before update of job_id, number, kind, target, message_id, job_kind, job_title, job_month, owner_email, created_at on effects
    for each row execute function refuse_change('the intent of an effect never changes');
create trigger effects_done_stay after update on effects for each row when (old.outcome = 'done')
    execute function refuse_change('an effect that is done never changes');
drop trigger attempts_stay on attempts;
create trigger attempts_stay before delete on attempts
    for each row execute function refuse_to_forget('attempts are never deleted', 'number');
create trigger looks_stay before delete on looks
    for each row execute function refuse_to_forget('looks are never deleted', 'number');
create trigger looks_ended_stay before update on looks for each row when (old.result is not null)
    execute function refuse_change('a look that has ended never changes');
create trigger decisions_stay before delete on decisions
    for each row execute function refuse_to_forget('decisions are never deleted', 'number');
create trigger decisions_never_change before update on decisions
    for each row execute function refuse_change('decisions never change');
drop trigger history_of_effects_stays on history;
create trigger history_of_effects_stays before delete on history for each row when (old.effect is not null)
    execute function refuse_to_forget('entries about effects are never deleted', 'effect');
