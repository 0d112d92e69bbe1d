import { Link, useLocation } from 'wouter';
import { useSearch } from '../client/search.ts';

interface TabsProps<Id extends string> {
  readonly label: string;
  /** The tabs by their place in the address; the first stands there without one. */
  readonly tabs: Readonly<Record<Id, string>>;
  readonly current: Id;
}

/** The parts of a page, each with an address of its own. */
export const Tabs = <Id extends string>({ label, tabs, current }: TabsProps<Id>) => {
  const [here] = useLocation();
  return (
    <nav aria-label={label} className="tabs">
      {(Object.entries(tabs) as [Id, string][]).map(([id, name], place) => (
        <Link
          key={id}
          href={place === 0 ? here : `${here}?tab=${id}`}
          aria-current={id === current ? 'page' : undefined}
        >
          {name}
        </Link>
      ))}
    </nav>
  );
};

/** The tab that the address names; the first where it names none. */
export const useTab = <Id extends string>(tabs: Readonly<Record<Id, string>>): Id => {
  const [search] = useSearch();
  const ids = Object.keys(tabs) as Id[];
  return ids.find((id) => id === search.get('tab')) ?? (ids[0] as Id);
};
