// Is each text of the page one that the report or the terminal has? A text may be shortened: two dots stand for its middle.

const HARMFUL = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

/** All strings in JSON. */
function* strings(json) {
  if (typeof json === 'string') yield json;
  else if (json !== null && typeof json === 'object') for (const value of Object.values(json)) yield* strings(value);
}

export function withoutBlanks(text) {
  return text.replace(/\s+/g, '');
}

/** Returns texts that neither the report's JSON nor the terminal's screen has. */
export function text(texts, report, screen) {
  const plain = (one) => withoutBlanks(one.replace(HARMFUL, '?'));
  const known = [plain(screen), ...Array.from(strings(report), plain)];
  const lines = report.lines?.map((row) => `${row.file}:${row.line}`) ?? [];
  known.push(...lines.map(plain));
  const has = (wanted) => {
    if (known.some((one) => one.includes(wanted))) return true;
    // A shortened name lacks its middle, and perhaps its parameters and namespaces.
    const parts = wanted.split('..').filter(Boolean);
    return parts.length > 1 && known.some((one) => parts.every((part) => one.includes(part.replace(/#\d+$/, ''))));
  };
  const alone = new Set(['gpuspy', '?', 'unknowncommand', '(unknownkernel)']);
  const strange = [...new Set(texts.map(plain))].filter((one) => one && !alone.has(one) && !has(one));
  return strange.map((one) => `a text that the report does not have: ${one.slice(0, 200)}`);
}
