import { counted } from '../../client/counted.ts';
import { textOf } from '../../client/exact-json.ts';

/** A node of EXPLAIN (FORMAT JSON). */
interface PlanNode {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Join Type'?: string;
  readonly Filter?: string;
  readonly 'Index Cond'?: string;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Total Cost': number;
  readonly 'Plan Rows': number;
  readonly 'Actual Rows'?: number;
  readonly 'Actual Total Time'?: number;
  readonly 'Actual Loops'?: number;
  readonly Plans?: readonly PlanNode[];
}

export interface Plan {
  readonly Plan: PlanNode;
  readonly 'Planning Time'?: number;
  readonly 'Execution Time'?: number;
}

/** Numbers may come as they were written. */
const numberOf = (value: unknown): number => (value === undefined || value === null ? 0 : Number(textOf(value)));

/** The time of a node in all of its loops, or its cost where it did not run. */
const weightOf = (node: PlanNode): number =>
  node['Actual Total Time'] === undefined
    ? numberOf(node['Total Cost'])
    : numberOf(node['Actual Total Time']) * numberOf(node['Actual Loops'] ?? 1);

/** The time that a node takes itself, without its children. */
const ownWeight = (node: PlanNode): number =>
  Math.max(0, weightOf(node) - (node.Plans ?? []).reduce((sum, child) => sum + weightOf(child), 0));

const titleOf = (node: PlanNode): string =>
  [
    node['Join Type'] && node['Join Type'] !== 'Inner'
      ? `${node['Join Type']} ${node['Node Type']}`
      : node['Node Type'],
    node['Relation Name'] && `on ${node['Relation Name']}`,
    node['Index Name'] && `by ${node['Index Name']}`,
  ]
    .filter(Boolean)
    .join(' ');

const rowsOf = (node: PlanNode): string => {
  const planned = numberOf(node['Plan Rows']).toLocaleString('en');
  return node['Actual Rows'] === undefined
    ? `about ${planned} rows`
    : `${counted(numberOf(node['Actual Rows']), 'row')}, ${planned} were expected`;
};

/** An estimate that is ten times off is often why a plan is slow. */
const isOff = (node: PlanNode): boolean => {
  if (node['Actual Rows'] === undefined) return false;
  const [planned, actual] = [numberOf(node['Plan Rows']) + 1, numberOf(node['Actual Rows']) + 1];
  return planned / actual > 10 || actual / planned > 10;
};

const Node = ({ node, whole }: { readonly node: PlanNode; readonly whole: number }) => {
  const share = whole === 0 ? 0 : ownWeight(node) / whole;
  return (
    <li>
      <p className="plan-node">
        <strong>{titleOf(node)}</strong>
        <meter
          aria-label={`Share of ${titleOf(node)}`}
          min={0}
          max={1}
          low={0.4}
          high={0.7}
          optimum={0}
          value={share}
        />
        <span>
          {Math.round(share * 100)} %{node['Actual Total Time'] !== undefined && ` · ${weightOf(node).toFixed(1)} ms`}
        </span>
        <span className={isOff(node) ? 'warn' : 'muted'}>{rowsOf(node)}</span>
        {node['Index Cond'] && <code>{node['Index Cond']}</code>}
        {node.Filter && <code>{node.Filter}</code>}
        {numberOf(node['Rows Removed by Filter']) > 0 && (
          <span className="warn">{counted(numberOf(node['Rows Removed by Filter']), 'row')} read in vain</span>
        )}
      </p>
      {node.Plans && (
        <ul>
          {node.Plans.map((child, place) => (
            // oxlint-disable-next-line react/no-array-index-key -- a plan never changes
            <Node key={place} node={child} whole={whole} />
          ))}
        </ul>
      )}
    </li>
  );
};

/** The plan of a statement as a tree, with the part of its time, or of its cost, that each step takes. */
export const PlanTree = ({ plan }: { readonly plan: Plan }) => (
  <section className="plan" aria-label="Plan">
    <p className="muted">
      {plan['Execution Time'] === undefined
        ? 'It did not run: the bars are estimated cost.'
        : `It ran for ${numberOf(plan['Execution Time']).toFixed(1)} ms and was planned in ${numberOf(plan['Planning Time']).toFixed(1)} ms. Nothing that it wrote was kept.`}
    </p>
    <ul>
      <Node node={plan.Plan} whole={weightOf(plan.Plan)} />
    </ul>
  </section>
);
