import type { TestProject } from '#test/support/client.ts';
import { asAdmin } from '#test/support/databases.ts';

/** The catalog's facts about everything in user schemas, without the numbers of objects. */
const inventorySql = `
  select 'constraint' as kind, conrelid::regclass || '.' || conname as name, pg_get_constraintdef(oid) as what from pg_constraint
    where connamespace::regnamespace::text !~ '^(pg_|plinth|information_schema|auth|storage)'
  union all select 'index', indexrelid::regclass::text, pg_get_indexdef(indexrelid) || ' valid ' || indisvalid from pg_index
    join pg_class c on c.oid = indexrelid where c.relnamespace::regnamespace::text !~ '^(pg_|plinth|information_schema|auth|storage)'
  union all select 'trigger', tgrelid::regclass || '.' || tgname, pg_get_triggerdef(oid) || tgenabled::text from pg_trigger
    where not tgisinternal and tgname !~ '^plinth_'
  union all select 'policy', polrelid::regclass || '.' || polname, concat(polcmd, polpermissive, pg_get_expr(polqual, polrelid),
    pg_get_expr(polwithcheck, polrelid), (select array_agg(case when r = 0 then 'public' else regexp_replace(pg_get_userbyid(r), '^.*_owner$', 'owner') end)
    from unnest(polroles) r)) from pg_policy
    where polrelid not in (select oid from pg_class where relnamespace = to_regnamespace('storage'))
  union all select 'relation', c.oid::regclass::text, concat(relkind, relpersistence, relrowsecurity, relforcerowsecurity, relreplident,
    reloptions, pg_get_partkeydef(c.oid), pg_get_expr(relpartbound, c.oid), case when relkind in ('v', 'm') then pg_get_viewdef(c.oid) end,
    array(select regexp_replace(a::text, '[a-z0-9]+_(owner|service|reader)', '\\1', 'g') from unnest(relacl) a order by 1))
    from pg_class c where relnamespace::regnamespace::text !~ '^(pg_|plinth|information_schema|auth|storage)' and relkind <> 'i'
  union all select 'column', attrelid::regclass || '.' || attname, concat(format_type(atttypid, atttypmod), attnotnull, attidentity,
    attgenerated, pg_get_expr(adbin, adrelid), attinhcount, attcollation::regcollation) from pg_attribute a join pg_class c on c.oid = attrelid
    left join pg_attrdef d on adrelid = attrelid and adnum = attnum
    where relnamespace::regnamespace::text !~ '^(pg_|plinth|information_schema|auth|storage)' and relkind in ('r', 'p', 'v', 'm', 'c') and attnum > 0 and not attisdropped
  union all select 'function', p.oid::regprocedure::text, case when prokind in ('f', 'p') then pg_get_functiondef(p.oid) end ||
    regexp_replace(coalesce(proacl::text, ''), '[a-z0-9]+_(owner|service|reader)', '\\1', 'g') from pg_proc p
    where pronamespace::regnamespace::text !~ '^(pg_|plinth|information_schema|auth|storage)'
      and not exists (select from pg_depend where classid = 'pg_proc'::regclass and objid = p.oid and deptype = 'e')
  union all select 'type', t.oid::regtype::text, concat(typtype, typdefault, typnotnull, (select array_agg(enumlabel order by enumsortorder)
    from pg_enum where enumtypid = t.oid)) from pg_type t where typnamespace::regnamespace::text !~ '^(pg_|plinth|information_schema|auth|storage)'
      and not exists (select from pg_depend where classid = 'pg_type'::regclass and objid = t.oid and deptype = 'e')
  union all select 'comment', concat(classoid::regclass, description), description from pg_description where objoid >= 16384
    and classoid not in ('pg_extension'::regclass) and description !~ 'plinth'
  union all select 'sequence', seqrelid::regclass::text, concat(seqtypid, ':', seqstart, ':', seqincrement, ':', seqmin, ':', seqmax, seqcycle,
    (select refobjid::regclass || '.' || refobjsubid from pg_depend where classid = 'pg_class'::regclass and objid = seqrelid and deptype in ('a', 'i')
      and refobjsubid > 0)) from pg_sequence join pg_class c on c.oid = seqrelid
    where relnamespace::regnamespace::text !~ '^(pg_|plinth|information_schema|auth|storage)'
  union all select 'extension', extname, '' from pg_extension
  union all select 'statistics', stxname, pg_get_statisticsobjdef(oid) from pg_statistic_ext
  order by 1, 2, 3`;

/** As lines. */
export const inventory = (project: Pick<TestProject, 'dbName'>): Promise<string[]> =>
  asAdmin(project.dbName, async (admin) => {
    await admin.query(`set search_path = ''`);
    const { rows } = await admin.query<{ kind: string; name: string; what: string }>(inventorySql);
    return rows.map(({ kind, name, what }) => `${kind} ${name}: ${what}`);
  });

/** Something of every kind that a schema can hold. */
export const everything = `
  set check_function_bodies = off;
  create schema extra;
  create schema "Größe ""x""";
  create extension citext;
  create type mood as enum ('sad', 'it''s ok', 'happy');
  create type extra.pair as (a int, b text collate "C");
  create function is_even(n int) returns boolean language sql immutable as 'select n % 2 = 0';
  create domain even as int default 2 not null constraint evenness check (is_even(value));
  create sequence numbers as smallint increment by -5 minvalue -100 maxvalue 10 start with 10 cycle;
  create table users (
    id bigint generated always as identity (start with 100) primary key,
    email citext unique not null, mood mood default 'sad', height numeric(6, 2) check (height > 0), shout text generated always as (upper(email::text)) stored,
    tags text[] not null default '{}', boss bigint references users on delete set null, pair extra.pair,
    favourite bigint, created_at timestamptz not null default now(), unique nulls not distinct (mood, height));
  create table posts (
    id serial primary key, author bigint not null references users (id) deferrable initially deferred, title varchar(40) collate "C" not null,
    number int default nextval('numbers'), even even, body jsonb default '{"a": "it''s; -- no comment"}', check (is_even(id * 2)));
  alter table users add constraint favourite_post foreign key (favourite) references posts (id) not valid;
  create index posts_title on posts using btree (lower(title) desc) where number > 3;
  create unique index "Posts Unique" on posts (author, title) include (number);
  create index posts_body on posts using gin (body);
  create table "Größe ""x"""."wähl select" ("Ünïque ""key""" int primary key, "order" text default 'a''b', "日本" date);
  comment on table "Größe ""x"""."wähl select" is 'it''s ''quoted''; \\ and
two lines';
  comment on column users.email is 'where to write';
  comment on type mood is 'how it goes';
  comment on function is_even(int) is 'whether';
  create table logs (at date not null, kind text, id bigint generated by default as identity, primary key (at, id, kind)) partition by range (at);
  create index logs_kind on logs (kind);
  create table logs_2025 partition of logs for values from ('2025-01-01') to ('2026-01-01');
  create table logs_2026 partition of logs (kind default 'new') for values from ('2026-01-01') to ('2027-01-01') partition by list (kind);
  create table logs_2026_a partition of logs_2026 for values in ('a', 'b');
  create table logs_rest partition of logs default;
  create index logs_2025_own on logs_2025 (id);
  create table animals (id int primary key, name text not null default 'nobody', legs int check (legs >= 0));
  create table dogs (breed text, check (breed <> '')) inherits (animals);
  alter table dogs alter name set default 'Rex', alter legs set not null;
  create unlogged table fast (a int) with (fillfactor = 70);
  create table nothing ();
  create view recent with (security_invoker = on) as select u.id, u.email, p.title from users u join posts p on p.author = u.id;
  create view a_on_z as select id as renamed from recent where title <> '' with cascaded check option;
  create view zebra as select id, mood, height from users group by id;
  create view after_zebra with (security_barrier) as select * from zebra;
  alter view zebra alter mood set default 'happy';
  create materialized view counts as select author, count(*) as many from posts group by 1;
  create unique index counts_author on counts (author);
  create materialized view empty_counts as select 1 as one with no data;
  create function titles(of users) returns setof posts language sql stable as 'select * from public.posts where author = ($1).id';
  create function later() returns int language sql as 'select count(*)::int from public.not_yet';
  create table not_yet (x int);
  create function atomic(a int default 3, variadic rest text[] default '{}') returns table (x int, y text) language sql begin atomic select id, email::text from users; end;
  create procedure tidy(inout n int) language plpgsql as $$ begin n := n + 1; end $$;
  create function quoted() returns text language sql set search_path to 'extra', 'public' as $body$ select 'a''b$$c' $body$;
  create aggregate total(int) (sfunc = int4pl, stype = int, initcond = '0');
  create function default_of() returns int language sql volatile as 'select count(*)::int from public.has_default';
  create table has_default (n int default default_of());
  create function touch() returns trigger language plpgsql as $$ begin return new; end $$;
  create trigger touch before update of title on posts for each row when (old.title is distinct from new.title) execute function touch();
  create trigger off_now after insert on users execute function touch();
  alter table users disable trigger off_now;
  create trigger through_view instead of insert on recent for each row execute function touch();
  create rule keep as on delete to not_yet do instead nothing;
  create statistics related (dependencies) on author, title from posts;
  alter table posts replica identity using index "Posts Unique";
  alter table posts enable row level security;
  alter table users enable row level security; alter table users force row level security;
  create policy "own posts" on posts for select to authenticated using (author = 5);
  create policy writes on posts as restrictive for insert to anon, authenticated with check (length(title) > 1);
  create policy everyone on users using (true) with check (false);
  create policy mine on users to current_user using (true);
  comment on policy everyone on users is 'open';
  grant select (id, email), update (mood) on users to anon;
  revoke insert, delete on posts from anon; revoke all on recent from anon, authenticated;
  grant execute on function is_even(int) to anon, authenticated;
  grant usage on schema extra to authenticated;`;
