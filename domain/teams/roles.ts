/** The roles of an organization's members, from least to most. */
export const roles = ['viewer', 'developer', 'admin', 'owner'] as const;
export type Role = (typeof roles)[number];

export const atLeast = (role: Role, min: Role): boolean => roles.indexOf(role) >= roles.indexOf(min);
