// Marks the first use of each glossary term on a page; its meaning appears on hover, focus or touch.
// The meanings come from glossary.js, which is made from the glossary of "How to read this book".
"use strict";

(() => {
  const glossary = window.ragGlossary ?? {};
  const article = document.querySelector(".bd-article");
  if (!article || article.querySelector("#glossary")) return;

  const escaped = (term) => term.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const waiting = new Map(
    Object.entries(glossary).map(([term, meaning]) => {
      // an abbreviation such as "HyDE" is written one way, a word such as "cluster" may begin a sentence
      const flags = /[A-Z]/.test(term.slice(1)) ? "u" : "iu";
      return [term, { meaning, pattern: new RegExp(`(?<![\\w-])${escaped(term)}s?(?![\\w-])`, flags) }];
    }),
  );

  // terms that mean something else on this page, such as a cluster of computers
  article.querySelectorAll("[data-not-terms]").forEach(({ dataset }) =>
    dataset.notTerms.split(",").forEach((term) => waiting.delete(term)));

  const mark = (node) => {
    for (const [term, { meaning, pattern }] of waiting) {
      const match = pattern.exec(node.data);
      if (!match) continue;
      waiting.delete(term);
      const rest = node.splitText(match.index);
      const after = rest.splitText(match[0].length);
      const word = document.createElement("span");
      word.className = "rag-term";
      word.tabIndex = 0;
      word.dataset.meaning = meaning;
      word.setAttribute("aria-description", meaning);
      rest.replaceWith(word);
      word.append(rest);
      mark(node);
      mark(after);
      return;
    }
  };

  const outside = "a, code, pre, button, summary, .rag-term, .rag-diagram, table, figure, h1, h2, h3, h4";
  article.querySelectorAll("p, li, dd").forEach((block) => {
    if (block.closest(outside)) return;
    // a passage that an answer quotes has words of its own
    if (block.matches("li") && block.closest(".output") && !block.closest(".rag-findings")) return;
    const walker = document.createTreeWalker(block, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walker.nextNode()) {
      if (!walker.currentNode.parentElement.closest(outside)) nodes.push(walker.currentNode);
    }
    nodes.forEach(mark);
  });
})();
