/** The box of a table in the diagram. */
export interface DrawnTable {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly { readonly name: string; readonly type: string }[];
  readonly primary_key: readonly string[];
  readonly foreign_keys: readonly {
    readonly columns: readonly string[];
    readonly references: { readonly schema: string; readonly table: string };
  }[];
}

/** A table in the diagram, in units of the drawing. */
export interface Box {
  readonly table: DrawnTable;
  readonly x: number;
  readonly y: number;
  readonly height: number;
}

interface Line {
  readonly key: string;
  readonly path: string;
}

export interface Drawing {
  readonly boxes: readonly Box[];
  readonly lines: readonly Line[];
  readonly width: number;
  readonly height: number;
  /** Tables that are not drawn. */
  readonly left: number;
}

/** More boxes can neither be drawn quickly nor read. */
const maxBoxes = 120;
/** Columns of a box; the others are counted. */
export const maxColumns = 8;
export const boxWidth = 200;
const [gapX, gapY, headHeight, lineHeight] = [90, 24, 28, 18];
const maxPerColumn = 8;

const referencesOf = (table: DrawnTable, drawn: ReadonlyMap<string, DrawnTable>): string[] => [
  ...new Set(
    table.foreign_keys
      .filter(({ references }) => references.schema === table.schema && references.table !== table.name)
      .map(({ references }) => references.table)
      .filter((name) => drawn.has(name)),
  ),
];

/** How many references lead on from a table, one after the other; a circle ends where it began. */
const depthsOf = (drawn: ReadonlyMap<string, DrawnTable>): ReadonlyMap<string, number> => {
  const depths = new Map<string, number>();
  const visit = (table: DrawnTable, above: ReadonlySet<string>): number => {
    const known = depths.get(table.name);
    if (known !== undefined) return known;
    const within = new Set([...above, table.name]);
    const below = referencesOf(table, drawn)
      .filter((name) => !within.has(name))
      .flatMap((name) => drawn.get(name) ?? [])
      .map((other) => visit(other, within));
    const depth = below.length === 0 ? 0 : Math.max(...below) + 1;
    depths.set(table.name, depth);
    return depth;
  };
  for (const table of drawn.values()) visit(table, new Set());
  return depths;
};

const heightOf = ({ columns }: DrawnTable): number =>
  headHeight + (Math.min(columns.length, maxColumns) + (columns.length > maxColumns ? 1 : 0)) * lineHeight + 8;

/** Tables that refer to others, or are referred to, before those that stand alone. */
const chosenOf = (tables: readonly DrawnTable[]): DrawnTable[] => {
  const referred = new Set(tables.flatMap((table) => table.foreign_keys.map(({ references }) => references.table)));
  const isLinked = (table: DrawnTable): boolean => table.foreign_keys.length > 0 || referred.has(table.name);
  return [...tables.filter(isLinked), ...tables.filter((table) => !isLinked(table))].slice(0, maxBoxes);
};

const lineBetween = (from: Box, to: Box): string => {
  const isLeft = from.x < to.x;
  const [x1, x2] = [from.x + (isLeft ? boxWidth : 0), to.x + (isLeft ? 0 : boxWidth)];
  const [y1, y2] = [from.y + headHeight / 2, to.y + headHeight / 2];
  const bend = from.x === to.x ? -gapX / 2 : (x2 - x1) / 2;
  const end = from.x === to.x ? to.x : x2;
  const begin = from.x === to.x ? from.x : x1;
  const inner = from.x === to.x ? [begin + bend, end + bend] : [begin + bend, end - bend];
  return `M${begin} ${y1}C${inner[0]} ${y1} ${inner[1]} ${y2} ${end} ${y2}`;
};

const placed = (chosen: readonly DrawnTable[], depths: ReadonlyMap<string, number>): Box[] => {
  const columns: { depth: number; next: number; count: number }[] = [];
  const boxes: Box[] = [];
  const sorted = chosen.toSorted((a, b) => (depths.get(a.name) ?? 0) - (depths.get(b.name) ?? 0));
  for (const table of sorted) {
    const depth = depths.get(table.name) ?? 0;
    let index = columns.findIndex((column) => column.depth === depth && column.count < maxPerColumn);
    if (index === -1) index = columns.push({ depth, next: 10, count: 0 }) - 1;
    const column = columns[index] ?? { depth, next: 10, count: 0 };
    const height = heightOf(table);
    boxes.push({ table, x: gapX / 2 + index * (boxWidth + gapX), y: column.next, height });
    column.next += height + gapY;
    column.count += 1;
  }
  return boxes;
};

/** Places tables in columns, so that most foreign keys lead to the left. Tables of one schema only. */
export const drawingOf = (tables: readonly DrawnTable[]): Drawing => {
  const chosen = chosenOf(tables);
  const drawn = new Map(chosen.map((table) => [table.name, table]));
  const boxes = placed(chosen, depthsOf(drawn));
  const byName = new Map(boxes.map((box) => [box.table.name, box]));
  const lines = boxes.flatMap((box) =>
    referencesOf(box.table, drawn).flatMap((name) => {
      const to = byName.get(name);
      return to === undefined ? [] : [{ key: `${box.table.name} ${name}`, path: lineBetween(box, to) }];
    }),
  );
  return {
    boxes,
    lines,
    width: Math.max(0, ...boxes.map(({ x }) => x + boxWidth + gapX / 2)),
    height: Math.max(0, ...boxes.map(({ y, height }) => y + height + 10)),
    left: tables.length - chosen.length,
  };
};

/** A table with those that it refers to and those that refer to it. */
export const aroundOf = <T extends DrawnTable>(tables: readonly T[], table: T): T[] => {
  const near = new Set([table.name, ...table.foreign_keys.map(({ references }) => references.table)]);
  return tables.filter(
    (other) => near.has(other.name) || other.foreign_keys.some(({ references }) => references.table === table.name),
  );
};
