import { useQuery } from '@tanstack/react-query';
import { call } from '../client/api.ts';
import { useProject } from '../client/project.ts';
import { useSchema } from '../client/schema.ts';

const maxTables = 200;

/** The id by which a field takes these names as its suggestions. */
export const eventNamesId = 'event-names';

/** The events that the project can subscribe to. */
export const useEvents = () => {
  const { project } = useProject();
  return useQuery({
    queryKey: ['events', project.id],
    queryFn: () => call('GET /projects/{project_id}/integrations/events', { params: { project_id: project.id } }),
    staleTime: 300_000,
  });
};

/** Suggestions for a field that takes the name of an event: the catalogue, and the groups of it. */
export const EventNames = () => {
  const events = (useEvents().data?.events ?? []).filter(({ name }) => !name.includes('<'));
  const tables = (useSchema().data?.tables ?? []).filter(({ schema }) => schema === 'public').slice(0, maxTables);
  const groups = [...new Set(events.map(({ name }) => `${name.split('.')[0]}.*`))];
  return (
    <datalist id={eventNamesId}>
      {events.map(({ name, description }) => (
        <option key={name} value={name}>
          {description}
        </option>
      ))}
      {[...groups, ...tables.map(({ name }) => `table.${name}.*`)].map((name) => (
        <option key={name} value={name} />
      ))}
    </datalist>
  );
};
