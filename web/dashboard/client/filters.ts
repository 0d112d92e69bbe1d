import { useSearch } from './search.ts';

/** The filters of a page, which stand in its address: a colleague who opens it sees the same. */
export interface Filters {
  readonly get: (name: string) => string;
  /** Sets some of them, and begins with the first page; an empty text leaves one out. */
  readonly set: (changes: Readonly<Record<string, string>>) => void;
  /** The same within the page of the list that is shown. */
  readonly pick: (changes: Readonly<Record<string, string>>) => void;
  readonly offset: number;
  readonly move: (offset: number) => void;
}

export const useFilters = (): Filters => {
  const [search, setSearch] = useSearch();
  const change = (changes: Readonly<Record<string, string>>): void =>
    setSearch(
      (present) => {
        const all = { ...Object.fromEntries(present), ...changes };
        return Object.fromEntries(Object.entries(all).filter(([, value]) => value !== ''));
      },
      { replace: true },
    );
  const offset = Number(search.get('offset') ?? 0);
  return {
    get: (name) => search.get(name) ?? '',
    set: (changes) => change({ ...changes, offset: '' }),
    pick: change,
    offset: Number.isSafeInteger(offset) && offset > 0 ? offset : 0,
    move: (to) => change({ offset: to === 0 ? '' : String(to) }),
  };
};

/** The one of these that the text is; undefined for any other text. */
export const oneOf = <T extends string>(values: readonly T[], text: string): T | undefined =>
  values.find((value) => value === text);
