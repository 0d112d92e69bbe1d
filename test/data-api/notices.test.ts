import test from 'ava';
import { usePlatform } from '#test/support/platform.ts';
import { createRestProject } from './rest-project.ts';

const platform = usePlatform(test);

test('notices and warnings of a function are not sent, however many', async (t) => {
  const p = await createRestProject(
    platform(),
    `create table written (what text);
     create function floods() returns int language plpgsql volatile as $$
       begin
         insert into written values ('flood');
         for i in 1..20 loop
           raise notice '%', repeat('x', 1000000);
           raise warning '%', repeat('x', 1000000);
         end loop;
         return 1;
       end $$`,
  );
  const { status, text } = await p.rest('POST', '/rpc/floods');
  t.deepEqual([status, text], [200, '1']);
  t.is((await p.sql('select from written')).length, 1);
});
