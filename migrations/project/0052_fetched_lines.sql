-- Exports read many rows of a cursor at a time, and not more than fit into one piece, however long they are.

-- Joins the next lines of an open cursor until they have that many bytes; 0 lines at its end. It runs as its caller, and
-- without a search_path of its own, which policies and functions of the project within the cursor would see; so every
-- operator is named with its schema.
create function plinth_api.fetch_lines(a_cursor refcursor, separator text, max_bytes integer)
returns table (body text, lines integer) language plpgsql volatile as $$
declare
  line text;
  gathered text[] := '{}';
  bytes integer := 0;
begin
  loop
    fetch a_cursor into line;
    exit when not found;
    gathered := gathered operator(pg_catalog.||) line;
    bytes := bytes operator(pg_catalog.+) pg_catalog.octet_length(line);
    exit when bytes operator(pg_catalog.>=) max_bytes;
  end loop;
  return query select pg_catalog.array_to_string(gathered, separator), pg_catalog.cardinality(gathered);
end $$;
grant execute on function plinth_api.fetch_lines(refcursor, text, integer) to public;
