import { useQuery } from '@tanstack/react-query';
import { call } from '../../client/api.ts';
import type { Filters } from '../../client/filters.ts';
import { useProject } from '../../client/project.ts';
import type { Operations } from '../../client/types.ts';

type Key = Operations['GET /projects/{project_id}/api-keys']['answer']['api_keys'][number];

/** A model of a provider; what is left out does not matter. */
export interface ModelName {
  readonly provider: string | undefined;
  readonly model: string | undefined;
}

/** The API keys of the project. */
export const useKeys = () => {
  const { project } = useProject();
  return useQuery({
    queryKey: ['keys', project.id, 'names'],
    queryFn: () =>
      call('GET /projects/{project_id}/api-keys', { params: { project_id: project.id }, query: { limit: 200 } }),
    select: ({ api_keys: keys }) => keys,
  });
};

/** The name of the key that a call was made with. */
export const keyNameOf = (id: string | null, keys: readonly Key[] | undefined): string => {
  if (id === null) return 'without a key';
  return keys?.find((key) => key.id === id)?.name ?? `deleted key ${id.slice(-6)}`;
};

interface KeyFilterProps {
  readonly filters: Filters;
  readonly keys: readonly Key[] | undefined;
}

export const KeyFilter = ({ filters, keys = [] }: KeyFilterProps) => {
  const chosen = filters.get('key');
  const isKnown = chosen === '' || chosen === 'none' || keys.some(({ id }) => id === chosen);
  return (
    <label className="inline">
      Key
      <select value={chosen} onChange={({ target }) => filters.set({ key: target.value })}>
        <option value="">any</option>
        <option value="none">without a key</option>
        {keys.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
        {!isKnown && <option value={chosen}>{keyNameOf(chosen, keys)}</option>}
      </select>
    </label>
  );
};

const separator = '/';

interface ModelFilterProps {
  readonly filters: Filters;
  /** The models to choose from; the chosen one is among them in any case. */
  readonly models: readonly { readonly provider: string; readonly model: string }[];
}

export const ModelFilter = ({ filters, models }: ModelFilterProps) => {
  const [provider, model] = [filters.get('provider'), filters.get('model')];
  const chosen = provider === '' ? '' : `${provider}${separator}${model}`;
  const names = new Set(models.map((each) => `${each.provider}${separator}${each.model}`));
  if (chosen !== '') names.add(chosen);
  const choose = (name: string): void => {
    const at = name.indexOf(separator);
    filters.set({ provider: name.slice(0, Math.max(at, 0)), model: at === -1 ? '' : name.slice(at + 1) });
  };
  return (
    <label className="inline">
      Model
      <select value={chosen} onChange={({ target }) => choose(target.value)}>
        <option value="">any</option>
        {[...names]
          .toSorted((a, b) => a.localeCompare(b))
          .map((name) => (
            <option key={name}>{name}</option>
          ))}
      </select>
    </label>
  );
};
