import { createContext, useContext } from 'react';
import type { Operations } from './types.ts';

export type Role = 'viewer' | 'developer' | 'admin' | 'owner';
type Project = Operations['GET /projects/{project_id}']['answer'];

export interface OpenProject {
  readonly project: Project;
  readonly role: Role;
}

export const ProjectContext = createContext<OpenProject | null>(null);

/** The project that the page is about, and the role of who looks at it. */
export const useProject = (): OpenProject => {
  const open = useContext(ProjectContext);
  if (open === null) throw new Error('There is no project on this page.');
  return open;
};

const ranks: readonly Role[] = ['viewer', 'developer', 'admin', 'owner'];

/** Whether the role allows it; what it does not allow is not offered. */
export const atLeast = (role: Role, min: Role): boolean => ranks.indexOf(role) >= ranks.indexOf(min);
