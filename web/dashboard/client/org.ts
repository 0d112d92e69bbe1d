import { createContext, useContext } from 'react';
import type { Role } from './project.ts';
import type { Operations } from './types.ts';

type Listed = Operations['GET /team/orgs']['answer'][number];

export interface OpenOrg extends Pick<Listed, 'org_id' | 'org_name' | 'is_own'> {
  readonly role: Role;
  /** Names the organization to calls that are about one. */
  readonly headers: Readonly<Record<string, string>>;
}

export const OrgContext = createContext<OpenOrg | null>(null);

/** The organization that the page is about, and the role of who looks at it. */
export const useOrg = (): OpenOrg => {
  const open = useContext(OrgContext);
  if (open === null) throw new Error('There is no organization on this page.');
  return open;
};
