/** Longer data stays in the row, so that a waiting job costs Redis little. */
export const inlineDataLength = 4096;
