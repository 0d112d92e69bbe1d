/** Where the choice is kept. It is of the browser, and of no person. */
export const themeKey = 'theme';

export const themes = ['system', 'light', 'dark'] as const;
export type Theme = (typeof themes)[number];

/** The theme that a person chose in this browser; `system` follows the system's. */
export const chosenTheme = (): Theme => themes.find((theme) => theme === localStorage.getItem(themeKey)) ?? 'system';

/** Keeps the choice and shows it at once. */
export const chooseTheme = (theme: Theme): void => {
  localStorage.setItem(themeKey, theme);
  document.documentElement.dataset['theme'] = theme;
};
