import { useQuery } from '@tanstack/react-query';
import { useId } from 'react';
import { call } from '../../client/api.ts';
import { useProject } from '../../client/project.ts';

const offered = 200;

interface SegmentInputProps {
  readonly value: string;
  readonly onChange: (key: string) => void;
}

/** The key of a segment. Those of the project are offered. */
export const SegmentInput = ({ value, onChange }: SegmentInputProps) => {
  const { project } = useProject();
  const id = useId();
  const segments = useQuery({
    queryKey: ['segments', project.id, 'offered'],
    queryFn: () =>
      call('GET /projects/{project_id}/segments', { params: { project_id: project.id }, query: { limit: offered } }),
  });
  return (
    <label className="inline">
      Segment
      <input
        size={12}
        value={value}
        placeholder="any"
        list={id}
        autoComplete="off"
        onChange={({ target }) => onChange(target.value)}
      />
      <datalist id={id}>
        {segments.data?.segments.map(({ key, name }) => (
          <option key={key} value={key}>
            {name}
          </option>
        ))}
      </datalist>
    </label>
  );
};
