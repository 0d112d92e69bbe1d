import { type Role, atLeast } from '../../client/project.ts';
import { abilities } from '../../client/roles.ts';
import { roleWords } from './role-words.ts';

const roles: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

const areas = [...new Set(abilities.map(([area]) => area))].toSorted();

const countOf = (area: string, role: Role): number =>
  abilities.filter(([one, least]) => one === area && atLeast(role, least as Role)).length;

const Matrix = ({ area }: { readonly area: string }) => (
  // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- what scrolls must be reachable by keyboard
  <div className="scroll" role="region" aria-label={`${area}, by role`} tabIndex={0}>
    <table>
      <caption className="unseen">{area}</caption>
      <thead>
        <tr>
          <th scope="col">May</th>
          {roles.map((role) => (
            <th scope="col" key={role}>
              {role}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {abilities
          .filter(([one]) => one === area)
          .map(([, least, summary]) => (
            <tr key={summary}>
              <th scope="row" className="wrapping">
                {summary}
              </th>
              {roles.map((role) => (
                <td key={role}>{atLeast(role, least as Role) ? 'yes' : <span className="muted">no</span>}</td>
              ))}
            </tr>
          ))}
      </tbody>
    </table>
  </div>
);

/** The operations of each role, from the list that the API checks. */
export const RolesPage = () => (
  <>
    <h2>Roles</h2>
    <dl className="facts">
      {roles.map((role) => (
        <div key={role} className="fact">
          <dt>{role}</dt>
          <dd>{roleWords[role]}</dd>
        </div>
      ))}
    </dl>
    <p className="muted">The tables below are made from the declarations of the API itself, so they cannot differ.</p>
    {areas.map((area) => (
      <details key={area}>
        <summary>
          <strong>{area}</strong>{' '}
          <span className="muted">{roles.map((role) => `${role} ${countOf(area, role)}`).join(' · ')}</span>
        </summary>
        <Matrix area={area} />
      </details>
    ))}
  </>
);
