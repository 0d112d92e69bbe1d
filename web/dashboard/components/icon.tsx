/* Line drawings of 16 × 16, in the colour of the text beside them. They say nothing that the text does not. */
const paths = {
  home: 'M2.5 7.5 8 3l5.5 4.5M4 6.5V13h8V6.5',
  table: 'M2.5 3.5h11v9h-11zM2.5 6.5h11M2.5 9.5h11M6.5 3.5v9',
  schema: 'M2.5 2.5h4v3h-4zM9.5 10.5h4v3h-4zM4.5 5.5v6.5h5M9.5 2.5h4v3h-4zM6.5 4h3',
  sql: 'M3 4l3.5 3.5L3 11M8 11.5h5',
  storage: 'M2.5 4.5v8h11v-7h-6l-1.5-2h-3.5z',
  vectors: 'M3.5 12.5 8 8M8 8l5-2.5M8 8 6 3M3.5 12.5h0M13 5.5h0M6 3h0',
  functions: 'M5.5 3.5 2.5 8l3 4.5M10.5 3.5l3 4.5-3 4.5M9 3l-2 10',
  jobs: 'M2.5 4.5h7M2.5 8h7M2.5 11.5h4M11.5 8.5v4l3-2z',
  clock: 'M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M8 5v3l2 1.5',
  logs: 'M3 3.5h10M3 6.5h7M3 9.5h10M3 12.5h5',
  webhooks: 'M6 8.5 8.5 4a2.2 2.2 0 1 0-3.8.5M9.5 8h3a2.2 2.2 0 1 1-1.8 3.2M6.5 11.5H9M5.5 8.5a2.2 2.2 0 1 0 1 3',
  chat: 'M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z',
  users:
    'M6 8a2.3 2.3 0 1 0 0-4.6A2.3 2.3 0 0 0 6 8M2 13c0-2.2 1.8-3.5 4-3.5s4 1.3 4 3.5M10.5 3.6a2.3 2.3 0 0 1 0 4.2M11.5 9.7c1.5.4 2.5 1.6 2.5 3.3',
  enter: 'M9 2.5h4.5v11H9M2.5 8h7M7 5.5 9.5 8 7 10.5',
  flags: 'M4 2.5v11M4 3h8.5l-2 3 2 3H4',
  mail: 'M2.5 4h11v8.5h-11zM2.5 4.5 8 9l5.5-4.5',
  plug: 'M6 2.5v3M10 2.5v3M4.5 5.5h7v2a3.5 3.5 0 0 1-7 0zM8 11v2.5',
  key: 'M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8.3 7.7 3 13v.5h2v-1.5h1.5V10.5',
  chart: 'M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6',
  audit: 'M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2',
  settings: 'M2.5 5h6M11.5 5h2M10 3.5v3M2.5 11h2M7.5 11h6M6 9.5v3',
  search: 'M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9M10.3 10.3l3.2 3.2',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  dot: 'M8 7.5a.5.5 0 1 0 0 1 .5.5 0 0 0 0-1',
} as const;

export type IconName = keyof typeof paths;

/** A drawing beside a text; for screen readers it is not there. */
export const Icon = ({ name }: { readonly name: IconName }) => (
  <svg
    width="16"
    height="16"
    viewBox="0 0 16 16"
    fill="none"
    stroke="currentColor"
    strokeWidth="1.4"
    aria-hidden="true"
  >
    <path d={paths[name]} strokeLinecap="round" strokeLinejoin="round" />
  </svg>
);

/** The sign of plinth: a column on its base. */
export const Sign = () => (
  <svg width="20" height="20" viewBox="0 0 20 20" fill="currentColor" aria-hidden="true">
    <path d="M5 3h10v2.4H5zM7 6.6h6v6.2H7zM4.4 14h11.2v1.6H4.4zM2.6 16.4h14.8V18H2.6z" />
  </svg>
);
