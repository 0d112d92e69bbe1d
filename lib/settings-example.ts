import { z } from 'zod';

interface Note {
  readonly meaning?: string;
  readonly unit?: string;
  readonly default?: string | number;
  readonly enum?: readonly string[];
  readonly minimum?: number;
  readonly maximum?: number;
}

const boundsOf = ({ enum: values, minimum, maximum }: Note): string => {
  if (values) return `one of ${values.join(', ')}`;
  return minimum === undefined || maximum === undefined ? '' : `${minimum} to ${maximum}`;
};

const entryOf = (name: string, note: Note): string => {
  const facts = [note.unit, boundsOf(note)].filter((fact) => fact !== undefined && fact !== '').join('; ');
  const fallback = note.default === undefined ? '' : String(note.default);
  return `# ${note.meaning ?? ''}${facts === '' ? '' : ` (${facts})`}\n#${name}=${fallback}\n`;
};

/** `plinth.env.example`: each setting with its meaning, unit, bounds and default. */
export const settingsExample = (schema: z.ZodObject): string => {
  const { properties = {} } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as {
    properties?: Record<string, Note>;
  };
  const entries = Object.entries(properties).map(([name, note]) => entryOf(name, note));
  return `# Every setting, with its default. Made from lib/config.ts and queues/ by \`npm run settings\`.\n\n${entries.join('\n')}`;
};
