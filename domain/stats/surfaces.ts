/** The parts of a project that programs and people call. */
export const surfaces = [
  'rest',
  'graphql',
  'auth',
  'storage',
  'functions',
  'ai',
  'flags',
  'management',
  'other',
] as const;
export type Surface = (typeof surfaces)[number];

const patterns: readonly (readonly [RegExp, Surface])[] = [
  [/\/storage\/v1\b/, 'storage'],
  [/\/(?:v1\/rest|rest\/v1)\b/, 'rest'],
  [/\/graphql\b/, 'graphql'],
  [/\/auth\/v1\b|^\/oauth\//, 'auth'],
  [/^\/api\/functions\b|\/functions\/v1\b/, 'functions'],
  [/^\/api\/ai\b|^\/v1\//, 'ai'],
  [/\/ofrep\/v1\b/, 'flags'],
  [/^\/projects\//, 'management'],
];

/** The surface of a route. @param route the pattern of its path */
export const surfaceOf = (route: string): Surface => patterns.find(([pattern]) => pattern.test(route))?.[1] ?? 'other';
