-- Which tables are collections of documents with vectors. What a collection is called, how long its vectors are and whether
-- they are indexed stands in the catalog: it can be renamed or changed by SQL like any table.

select plinth.make_room();

create table plinth.collections (
  -- By name in a dump, so that it is found again in a copy.
  relation regclass primary key,
  -- What its documents are embedded with, `provider/model`; null until the first are written.
  model text,
  created_at timestamptz not null default now()
);

-- A number is used again one day: what was dropped is forgotten with the drop.
create function plinth.forget_collections() returns void
language sql set search_path = pg_catalog, pg_temp as $$
  delete from plinth.collections c where not exists (select from pg_class r where r.oid = c.relation)
$$;
insert into plinth.ddl_hooks (name, position, on_drop) values ('forget_collections', 30, true);

create function plinth.is_own_role(kinds text[]) returns boolean
language sql stable set search_path = pg_catalog, pg_temp as $$
  select exists (select from plinth.roles r where r.kind = any (kinds) and r.name = session_user)
$$;

-- The collections in schema public that still have a column of vectors, by name. `vector_type` is that of pgvector, in which
-- vectors are sent; documents are counted as the plan counts rows.
create function plinth_api.collections() returns table (
  relation oid, name text, type_schema text, vector_type oid, column_type text, dimensions integer, is_indexed boolean,
  model text, document_count bigint, created_at timestamptz)
language sql stable security definer set search_path = pg_catalog, pg_temp as $$
  select r.oid, r.relname::text, n.nspname::text, v.oid, t.typname::text, a.atttypmod,
    exists (select from pg_index i join pg_class x on x.oid = i.indexrelid join pg_am m on m.oid = x.relam
      where i.indrelid = r.oid and i.indisvalid and m.amname = 'hnsw' and i.indkey[0] = a.attnum),
    c.model, coalesce((select (plinth.sum_deltas(d.counter)).held from plinth.counted d where d.relation = r.oid), 0),
    c.created_at
  from plinth.collections c
    join pg_class r on r.oid = c.relation and r.relnamespace = 'public'::regnamespace
    join pg_attribute a on a.attrelid = r.oid and a.attname = 'embedding' and not a.attisdropped and a.atttypmod > 0
    join pg_extension e on e.extname = 'vector'
    join pg_namespace n on n.oid = e.extnamespace
    join pg_type t on t.oid = a.atttypid and t.typnamespace = n.oid and t.typname in ('vector', 'halfvec')
    join pg_type v on v.typname = 'vector' and v.typnamespace = n.oid
  where plinth.is_own_role(array['owner', 'service', 'reader'])
  order by r.relname
$$;

create function plinth_api.add_collection(a_relation oid) returns void
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not plinth.is_own_role(array['owner']) then
    raise exception 'only the project''s owner role makes collections' using errcode = '42501';
  end if;
  insert into plinth.collections (relation) values (a_relation) on conflict do nothing;
end $$;

-- The model that the collection's documents are embedded with: this one if it is the first, which others wait for until the
-- end of the transaction. No row: it is no collection any more.
create function plinth_api.use_collection_model(a_relation oid, a_model text) returns text
language plpgsql volatile security definer set search_path = pg_catalog, pg_temp as $$
begin
  if not plinth.is_own_role(array['owner', 'service']) then
    raise exception 'only the project itself writes its collections' using errcode = '42501';
  end if;
  update plinth.collections c set model = a_model where c.relation = a_relation and c.model is null;
  return (select c.model from plinth.collections c where c.relation = a_relation);
end $$;

grant execute on function plinth_api.collections(), plinth_api.add_collection(oid),
  plinth_api.use_collection_model(oid, text) to public;
