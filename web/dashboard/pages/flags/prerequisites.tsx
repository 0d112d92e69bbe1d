import { useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';
import { FaultAt } from '../../components/field.tsx';
import { replaced, without } from './conditions.tsx';
import type { Flag, FlagType, Prerequisite } from './flag-shapes.ts';
import { ValueInput } from './value-input.tsx';

const offered = 200;
const maxPrerequisites = 10;

interface PrerequisitesProps {
  readonly flag: Flag;
  readonly prerequisites: readonly Prerequisite[];
  readonly error: unknown;
  readonly onChange: (prerequisites: readonly Prerequisite[]) => void;
}

/** The other flags of the environment, by key, with their types. */
const useOthers = ({ key, environment }: Flag): ReadonlyMap<string, FlagType> => {
  const { project } = useProject();
  const flags = useQuery({
    queryKey: ['flags', project.id, environment, 'offered'],
    queryFn: () =>
      call('GET /projects/{project_id}/flags', {
        params: { project_id: project.id },
        query: { environment, limit: offered },
      }),
  });
  const others = (flags.data?.flags ?? []).filter((one) => one.key !== key);
  return new Map(others.map((one) => [one.key, one.flag_type]));
};

/** A flag that is not among those that are offered has the type of the value that is there. */
const typeOf = (value: unknown): FlagType => {
  const type = typeof value;
  if (type === 'object') return 'json';
  return type === 'string' || type === 'number' ? type : 'boolean';
};

/** Other flags that must have a value before the rules are asked. */
export const Prerequisites = ({ flag, prerequisites, error, onChange }: PrerequisitesProps) => {
  const list = useId();
  // Rises with each removal, so that no field keeps the text of the one that was in its place.
  const [epoch, setEpoch] = useState(0);
  const others = useOthers(flag);
  return (
    <section aria-label="Prerequisites">
      <datalist id={list}>
        {[...others.keys()].map((key) => (
          <option key={key} value={key} />
        ))}
      </datalist>
      {prerequisites.map((one, place) => (
        // oxlint-disable-next-line react/no-array-index-key -- the epoch changes when places do
        <div key={`${epoch} ${place}`} className="row condition">
          <span className="muted">{place === 0 ? 'only while' : 'and'}</span>
          <input
            aria-label={`Flag of prerequisite ${place + 1}`}
            value={one.key}
            list={list}
            placeholder="another flag"
            autoComplete="off"
            onChange={({ target }) => onChange(replaced(prerequisites, place, { ...one, key: target.value }))}
          />
          <ValueInput
            key={others.get(one.key)}
            label="is"
            type={others.get(one.key) ?? typeOf(one.value)}
            value={one.value}
            onChange={(value) => onChange(replaced(prerequisites, place, { ...one, value }))}
          />
          <button
            type="button"
            className="quiet"
            aria-label={`Remove prerequisite ${place + 1}`}
            onClick={() => {
              setEpoch(epoch + 1);
              onChange(without(prerequisites, place));
            }}
          >
            Remove
          </button>
        </div>
      ))}
      <FaultAt at="prerequisites" error={error} />
      {prerequisites.length < maxPrerequisites && (
        <button type="button" className="quiet" onClick={() => onChange([...prerequisites, { key: '', value: true }])}>
          Add a prerequisite
        </button>
      )}
    </section>
  );
};
