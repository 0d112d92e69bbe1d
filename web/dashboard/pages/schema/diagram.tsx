import { useMemo } from 'react';
import { useLocation } from 'wouter';
import { useProject } from '../../client/project.ts';
import { type Box, type DrawnTable, boxWidth, drawingOf, maxColumns } from './layout.ts';

const cut = (text: string, length: number): string => (text.length > length ? `${text.slice(0, length - 1)}…` : text);

const isKey = ({ primary_key: key, foreign_keys: foreign }: DrawnTable, name: string): boolean =>
  key.includes(name) || foreign.some(({ columns }) => columns.includes(name));

const BoxView = ({ box: { table, x, y, height }, onOpen }: { readonly box: Box; readonly onOpen: () => void }) => (
  // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions -- the list beside it is for keys
  <g transform={`translate(${x} ${y})`} className="box" onClick={onOpen}>
    <rect width={boxWidth} height={height} rx={6} />
    <text x={10} y={19} className="box-name">
      {cut(table.name, 24)}
    </text>
    {table.columns.slice(0, maxColumns).map(({ name, type }, index) => (
      <text key={name} x={10} y={40 + index * 18} className={isKey(table, name) ? 'box-key' : undefined}>
        {cut(`${name} ${type}`, 28)}
      </text>
    ))}
    {table.columns.length > maxColumns && (
      <text x={10} y={40 + maxColumns * 18}>{`and ${table.columns.length - maxColumns} more`}</text>
    )}
  </g>
);

/** Tables and the foreign keys between them. The list of tables says the same in words. */
export const Diagram = ({ tables }: { readonly tables: readonly DrawnTable[] }) => {
  const { project } = useProject();
  const [, navigate] = useLocation();
  const { boxes, lines, width, height, left } = useMemo(() => drawingOf(tables), [tables]);
  if (boxes.length === 0) return null;
  return (
    <figure>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard */}
      <div className="diagram" tabIndex={0} role="region" aria-label="Diagram">
        <svg
          role="img"
          aria-label={`${boxes.length} tables and ${lines.length} references between them`}
          width={width}
          height={height}
          viewBox={`0 0 ${width} ${height}`}
        >
          {lines.map(({ key, path }) => (
            <path key={key} d={path} />
          ))}
          {boxes.map((box) => (
            <BoxView
              key={box.table.name}
              box={box}
              onOpen={() => navigate(`/projects/${project.id}/schema/${encodeURIComponent(box.table.name)}`)}
            />
          ))}
        </svg>
      </div>
      {left > 0 && (
        <figcaption className="muted">
          {left.toLocaleString('en')} more tables are not drawn. Choose one to see it with those around it.
        </figcaption>
      )}
    </figure>
  );
};
