import test from 'ava';
import { DataError, statusOfSqlState } from '#domain/data-api/errors.ts';
import { useLibrary } from './support/library-db.ts';

const library = useLibrary(test);
const big = '9007199254740995';

/** The ids of the rows that fit, as text. */
const idsOf = async (table: string, filter: string, bareEquality = false): Promise<string[]> => {
  const rows = (await library().get(table, `select=id::text&order=id&${filter}`, { bareEquality })) as { id: string }[];
  return rows.map(({ id }) => id);
};

const found: readonly (readonly [filter: string, ids: readonly string[]])[] = [
  [`id=eq.${big}`, [big]],
  [`id=neq.2`, ['3', '4', big]],
  ['id=gt.3', ['4', big]],
  ['id=gte.3&id=lt.5', ['3', '4']],
  ['id=lte.2', ['2']],
  ['title=like.*or*', ['4']],
  ['title=like.%25or%25', ['4']],
  ['title=ilike.BIG*', [big]],
  ['title=match.^[a-z]', ['4']],
  ['title=imatch.^B', [big]],
  ['title=not.like.*o*', ['3', big]],
  ['id=in.(2,4)', ['2', '4']],
  ['id=not.in.(2,4)', ['3', big]],
  ['id=in.()', []],
  ['id=not.in.()', ['2', '3', '4', big]],
  ['title=in.("Big, (really)",orphan)', ['4', big]],
  ['title=eq.Big, (really)', [big]],
  ['title=eq.50%25', ['3']],
  ['title=in.("Second \\"one\\"")', ['2']],
  ['sold=is.true', [big]],
  ['sold=is.FALSE', ['2']],
  ['sold=is.unknown', ['3', '4']],
  ['sold=is.not_null', ['2', big]],
  ['sold=not.is.null', ['2', big]],
  ['author_id=isdistinct.1', ['3', '4']],
  ['author_id=not.isdistinct.1', ['2', big]],
  ['id=eq(any).{2,3}', ['2', '3']],
  ['id=gt(all).{2,3}', ['4', big]],
  ['title=like(any).{B*,o*}', ['4', big]],
  ['title=not.imatch(all).{^b,y}', ['2', '3', '4']],
  ['tags=cs.{a}', [big]],
  ['tags=cd.{a,"b c",d}', ['2', big]],
  ['tags=ov.{"b c"}', [big]],
  ['tags=eq.{}', ['2']],
  ['data=cs.{"k":{"x":2}}', ['2']],
  ['lent=cs.[2020-01-15,2020-01-16)', [big]],
  ['lent=ov.[2020-12-01,2021-01-10]', ['2']],
  ['lent=sl.[2021-01-01,)', [big]],
  ['lent=sr.(,2020-06-01)', ['2']],
  ['lent=nxr.(,2020-02-01)', [big]],
  ['lent=nxl.[2021-01-01,)', ['2']],
  ['lent=adj.[2020-02-01,2020-03-01)', [big]],
  ['words=fts.fat', [big]],
  ['words=fts(english).fat | thin', ['2', big]],
  ['words=not.wfts.fat', ['2']],
  ['title=plfts(simple).second one', ['2']],
  ['title=phfts(english).big really', [big]],
  ['data->k->>x=eq.1', [big]],
  ['data->k->x=eq.2', ['2']],
  ['data->>0=eq.p', ['3']],
  ['data->>-1=eq.q', ['3']],
  ['tags->>1=eq.b c', [big]],
  ['plain->>z=eq.1', [big]],
  ['data->>nothing=is.null', ['2', '3', '4', big]],
  [`data->>"it's"=is.not_null`, []],
  ['data->>"a\\\\"=is.not_null', []],
  ['or=(id.eq.2,and(author_id.eq.2,title.like.5*))', ['2', '3']],
  ['not.or=(id.eq.2,id.eq.3)', ['4', big]],
  ['not.and=(id.gt.2,id.lt.4)', ['2', '4', big]],
  ['or=(id.eq.2,id.eq.3)&or=(id.eq.3,id.eq.4)', ['3']],
  ['or=(not.and(id.gt.2,id.lt.9),title.in.("50%25",x))', ['2', '3', big]],
  ['or=(tags.cs.{a,"b c"},title.eq."Second \\"one\\"")', ['2', big]],
  ['id=eq.2&id=eq.3', []],
];

for (const [filter, ids] of found)
  test(`filter ${filter}`, async (t) => {
    const query = filter.replaceAll('+', '%2B');
    t.deepEqual(
      await idsOf('books', query),
      [...ids].sort((a, b) => Number(BigInt(a) - BigInt(b))),
    );
  });

test('a bare value is equality', async (t) => {
  t.deepEqual(await idsOf('books', 'id=3', true), ['3']);
  t.deepEqual(await idsOf('books', 'sold=true&title=Big, (really)', true), [big]);
  t.deepEqual(await idsOf('authors', 'mood=so so', true), ['2']);
});

test('a value is never read as SQL', async (t) => {
  const hostile = [
    `'; drop table books; --`,
    `\\'; drop table books; --`,
    '$1',
    '$$',
    '"',
    '/*',
    'x\\',
    `E'\\''`,
    '::int',
  ];
  for (const value of hostile) {
    t.deepEqual(await idsOf('books', `title=eq.${encodeURIComponent(value)}`), [], value);
    const key = encodeURIComponent(`"${value.replaceAll(/[\\"]/g, String.raw`\$&`)}"`);
    t.deepEqual(await idsOf('books', `data->>${key}=eq.x`), [], value);
    const listed = encodeURIComponent(`("${value.replaceAll(/[\\"]/g, String.raw`\$&`)}")`);
    t.deepEqual(await idsOf('books', `title=in.${listed}`), [], value);
    const [row] = (await library().get('books', `select=${key}:id&id=eq.2`)) as object[];
    t.deepEqual(row, { [value]: 2 });
  }
});

const codeOf = async (filter: string): Promise<{ status: number; code: string }> => {
  try {
    await library().get('books', filter);
  } catch (error) {
    if (error instanceof DataError) return { status: error.status, code: error.code };
    const code = String(Reflect.get(error as object, 'code'));
    return { status: statusOfSqlState(code), code };
  }
  return { status: 200, code: '' };
};

const refused: readonly (readonly [filter: string, code: string, status?: number])[] = [
  ['id=eq.x', '22P02'],
  ['id=eq.', '22P02'],
  ['id=in.(1,x)', '22P02'],
  ['id=in.("")', '22P02'],
  ['id=eq.99999999999999999999', '22003'],
  ['id=eq(any).1', '22P02'],
  ['id=eq(any).{1', '22P02'],
  ['title=match.(', '2201B'],
  ['tags=cs.a', '22P02'],
  ['tags=cs.{a', '22P02'],
  ['data=cs.{', '22P02'],
  ['lent=ov.x', '22P02'],
  ['lent=ov.[2,1]', '22007'],
  ['words=fts.a b', '42601'],
  ['words=fts(klingon).a', '42704'],
  ['title=is.true', '42804'],
  ['id=like.1', '42883', 404],
  ['id=cs.1', '42883', 404],
  ['title=eq.%00', '22021'],
  ['data->>%00=eq.1', 'PGRST100'],
  ['data->>"%00"=eq.1', '22021'],
  ['select="%00":id', '22021'],
  ['select=id::nothing', '42704'],
  ['select=id::setof', '42704'],
  ['select=title::int', '22P02'],
  ['select=title.sum()', '42883', 404],
  ['select=title,count()&order=price', '42803'],
  ['order=data->x->>y->z', '42883', 404],
];

for (const [filter, code, status = 400] of refused)
  test(`what the server refuses keeps its code: ${filter}`, async (t) => {
    t.deepEqual(await codeOf(filter), { status, code });
  });

test('a thousand filters and ten thousand values are one statement', async (t) => {
  const filters = Array.from({ length: 1000 }, (_, index) => `id=neq.${index + 10}`).join('&');
  t.deepEqual(await idsOf('books', filters), ['2', '3', '4', big]);
  const values = Array.from({ length: 10_000 }, (_, index) => index);
  t.deepEqual(await idsOf('books', `id=in.(${values.join(',')})`), ['2', '3', '4']);
  const either = Array.from({ length: 2000 }, (_, index) => `id.eq.${index + 3}`).join(',');
  t.deepEqual(await idsOf('books', `or=(${either})`), ['3', '4']);
  const deep = `or=${'(and'.repeat(31)}(id.eq.2)${')'.repeat(31)}`;
  t.deepEqual(await idsOf('books', deep), ['2']);
});
