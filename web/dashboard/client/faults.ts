/** A problem of one field, as `details` of an error has it. */
interface Fault {
  readonly path?: string;
  readonly message?: string;
}

/** An error of the API, as far as it is read here. */
interface Refusal {
  readonly status?: unknown;
  readonly details?: unknown;
}

const refusalOf = (error: unknown): Refusal => (error instanceof Error ? (error as Refusal) : {});

/** The problems of an error, field by field. A change that is only tried stands in the body as its `patch`. */
export const faultsOf = (error: unknown): readonly Fault[] => {
  const { details } = refusalOf(error);
  if (!Array.isArray(details)) return [];
  return (details as readonly Fault[]).map(({ path = '', ...rest }) => ({
    ...rest,
    path: path.replace(/^patch\./, ''),
  }));
};

/** Whether a problem belongs to a field, or to a part of it. */
export const isAt = ({ path = '' }: Fault, field: string): boolean => path === field || path.startsWith(`${field}.`);

const partOf = ({ path = '' }: Fault, field: string): string => {
  const rest = path.slice(field.length + 1);
  if (rest === '') return '';
  const names = rest.split('.').map((name) => (/^\d+$/.test(name) ? `no. ${Number(name) + 1}` : name));
  return `${names.join(' ')} `;
};

/** The words about a field of a form; null: the error says nothing about it. */
export const faultAt = (error: unknown, field: string): string | null => {
  const found = faultsOf(error).filter((fault) => isAt(fault, field));
  return found.length === 0 ? null : found.map((fault) => `${partOf(fault, field)}${fault.message ?? ''}`).join('; ');
};

/** Whether the change was meant for a version that is not the present one. */
export const isConflict = (error: unknown): boolean => refusalOf(error).status === 412;
