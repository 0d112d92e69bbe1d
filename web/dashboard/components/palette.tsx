import { useQuery } from '@tanstack/react-query';
import { type KeyboardEvent, useEffect, useId, useState } from 'react';
import { useLocation } from 'wouter';
import { call } from '../client/api.ts';
import { type Theme, chooseTheme, themes } from '../client/theme.ts';
import { groups } from '../pages/areas.tsx';
import { Dialog } from './dialog.tsx';

interface Found {
  readonly label: string;
  /** A word about it, at its right. */
  readonly kind: string;
  readonly at: string;
  /** It chooses this theme instead of a page. */
  readonly theme?: Theme;
}

const projectIn = (location: string): string | undefined => /^\/projects\/([^/]+)/.exec(location)?.[1];

/** Everything in one project that has a page of its own; what is still loading is not there yet. */
const useInProject = (id: string | undefined): readonly Found[] => {
  const params = { project_id: id ?? '' };
  const enabled = id !== undefined;
  const schema = useQuery({
    queryKey: ['schema', id],
    queryFn: () => call('GET /projects/{project_id}/db/schema', { params }),
    enabled,
  });
  const functions = useQuery({
    queryKey: ['functions', id, 'all'],
    queryFn: () => call('GET /projects/{project_id}/functions', { params, query: { limit: 200 } }),
    enabled,
  });
  if (id === undefined) return [];
  const base = `/projects/${id}`;
  const pages = groups.flatMap(({ areas }) => areas);
  return [
    ...pages.map(({ label, at }) => ({ label, kind: 'Page', at: `${base}${at}` })),
    ...(schema.data?.tables ?? [])
      .filter((table) => table.schema === 'public')
      .map(({ name }) => ({ label: name, kind: 'Table', at: `${base}/tables/${encodeURIComponent(name)}` })),
    ...(functions.data?.functions ?? []).map((fn) => ({
      label: fn.name,
      kind: 'Function',
      at: `${base}/functions/${fn.id}`,
    })),
  ];
};

const useEverything = (location: string): readonly Found[] => {
  const inProject = useInProject(projectIn(location));
  const projects = useQuery({
    queryKey: ['projects'],
    queryFn: () => call('GET /projects', { query: { limit: 200 } }),
  });
  return [
    ...inProject,
    ...(projects.data?.projects ?? []).map(({ id, name }) => ({ label: name, kind: 'Project', at: `/projects/${id}` })),
    { label: 'All projects', kind: 'Page', at: '/' },
    ...themes.map((theme) => ({ label: `Theme: ${theme}`, kind: 'Look', at: '', theme })),
  ];
};

/** Keys that do something everywhere. */
const keys = [
  ['Ctrl-K', 'Find a page, a table, a function or a project'],
  ['?', 'Show these keys'],
  ['Arrow keys, Page Up, Page Down, Home, End', 'Move in a table'],
  ['F2 or Enter', 'Edit a cell'],
  ['Ctrl-Enter', 'Run SQL'],
  ['Esc', 'Close a dialog'],
] as const;

/** The list of keys. */
export const KeysDialog = ({ onClose }: { readonly onClose: () => void }) => (
  <Dialog title="Keys" onClose={onClose}>
    <dl className="facts">
      {keys.map(([key, does]) => (
        <div key={key} className="pair">
          <dt>
            <kbd>{key}</kbd>
          </dt>
          <dd>{does}</dd>
        </div>
      ))}
    </dl>
  </Dialog>
);

const maxShown = 50;

/** The best come first: names that begin with the text, then names that hold it, then names that hold each word. */
const rankOf = (label: string, text: string): number => {
  const [name, sought] = [label.toLowerCase(), text.toLowerCase()];
  if (name.startsWith(sought)) return 0;
  if (name.includes(sought)) return 1;
  return sought.split(/\s+/).every((word) => name.includes(word)) ? 2 : 3;
};

const matching = (found: readonly Found[], text: string): readonly Found[] =>
  found
    .map((each) => ({ each, rank: rankOf(`${each.label} ${each.kind}`, text.trim()) }))
    .filter(({ rank }) => rank < 3)
    .toSorted((a, b) => a.rank - b.rank)
    .slice(0, maxShown)
    .map(({ each }) => each);

/** Finds everything that has a page, by a part of its name. */
export const Palette = ({ onClose }: { readonly onClose: () => void }) => {
  const [location, go] = useLocation();
  const [text, setText] = useState('');
  const [chosen, setChosen] = useState(0);
  const id = useId();
  const shown = matching(useEverything(location), text);
  const open = ({ at, theme }: Found): void => {
    onClose();
    if (theme === undefined) go(at);
    else chooseTheme(theme);
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    const target = shown[chosen];
    if (step !== 0) setChosen((chosen + step + shown.length) % Math.max(1, shown.length));
    else if (event.key === 'Enter' && target !== undefined) open(target);
    else return;
    event.preventDefault();
  };
  useEffect(() => {
    document.querySelector(`#${CSS.escape(`${id}-${chosen}`)}`)?.scrollIntoView({ block: 'nearest' });
  }, [id, chosen]);
  return (
    <Dialog title="Find" className="palette" onClose={onClose}>
      <input
        role="combobox"
        aria-label="Find"
        aria-expanded="true"
        aria-controls={id}
        aria-activedescendant={shown.length > 0 ? `${id}-${chosen}` : undefined}
        placeholder="Find a page, a table, a function, a project"
        autoComplete="off"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setChosen(0);
        }}
        onKeyDown={onKeyDown}
      />
      <ul id={id} role="listbox" aria-label="Found">
        {shown.map((each, place) => (
          // oxlint-disable-next-line jsx-a11y/click-events-have-key-events -- the input above has the keys
          <li
            key={`${each.at}:${each.label}`}
            id={`${id}-${place}`}
            role="option"
            aria-selected={place === chosen}
            onClick={() => open(each)}
          >
            {each.label}
            <span className="muted">{each.kind}</span>
          </li>
        ))}
      </ul>
      {shown.length === 0 && (
        <p className="empty" role="status">
          Nothing has a name like this.
        </p>
      )}
    </Dialog>
  );
};
