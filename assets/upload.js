// Uploads from the drop zone: every file goes in pieces; the files of one drop are one run.
(function () {
  "use strict";
  const say = (text, bad, share) => {
    const line = document.getElementById("upload-status");
    if (line) { line.textContent = text; line.classList.toggle("ck-bad", !!bad); }
    const bar = document.getElementById("upload-bar");
    if (bar) { bar.style.display = share === undefined ? "none" : "block"; bar.value = share || 0; }
  };

  const PIECE = 16 * 1024 * 1024;

  function post(name, batch, offset, total, body, onProgress) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", `/upload?${new URLSearchParams({ name, batch, offset, total })}`);
      request.upload.onprogress = (event) => onProgress(event.loaded);
      request.onerror = () => reject(new Error(`${name}: the connection broke`));
      request.onload = () => {
        let answer = {};
        try { answer = JSON.parse(request.responseText); } catch (error) { answer = { error: `the server answered ${request.status}` }; }
        if (request.status === 200) resolve(answer); else reject(new Error(`${name}: ${answer.error}`));
      };
      request.send(body);
    });
  }

  // Piece after piece, so that neither the browser nor the server ever holds more than one of them.
  async function send(file, name, batch, onProgress) {
    let answer = null;
    let offset = 0;
    do {
      const start = offset;
      const body = file.slice(start, start + PIECE);
      answer = await post(name, batch, start, file.size, body, (sent) => onProgress(start + sent));
      offset = start + body.size;
    } while (offset < file.size);
    return answer;
  }

  function randomName() {
    const bytes = window.crypto.getRandomValues(new Uint8Array(16));
    return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  // The files of one drop are one run. A file that cannot be sent is reported; the others are opened all the same.
  let busy = false;
  async function sendAll(items) {
    if (!items.length || busy) return;
    busy = true;
    const batch = randomName();
    const total = items.reduce((sum, item) => sum + item.file.size, 0);
    let before = 0;
    const answers = [];
    const failed = [];
    for (const [at, item] of items.entries()) {
      try {
        answers.push(await send(item.file, item.name, batch, (sent) => {
          const share = total ? (before + Math.min(sent, item.file.size)) / total : 1;
          say(`${at} of ${items.length} sent, sending ${item.name}: ${Math.round(100 * share)} %`, false, share);
        }));
      } catch (error) {
        failed.push(error.message);
      }
      before += item.file.size;
    }
    busy = false;
    if (failed.length) say(failed.join("; "), true); else say(`${items.length} sent`);
    if (answers.length) {
      const ref = items.length === 1 ? answers[0].ref : answers[0].folder;
      window.dash_clientside.set_props("open-chosen", { data: { ref, at: Date.now() } });
    }
  }

  function walk(entry) {
    const name = entry.fullPath.replace(/^\/+/, "");
    if (entry.isFile) return new Promise((resolve) => entry.file((file) => resolve([{ file, name }]), () => resolve([])));
    return new Promise((resolve) => {
      const reader = entry.createReader();
      const found = [];
      const more = () => reader.readEntries(async (entries) => {
        if (!entries.length) { resolve(found); return; }
        for (const inner of entries) if (!inner.name.startsWith(".")) found.push(...(await walk(inner)));
        more();
      }, () => resolve(found));
      more();
    });
  }

  const named = (files) => [...files].map((file) => ({ file, name: file.webkitRelativePath || file.name }));

  const zone = (event) => event.target.closest && event.target.closest(".ck-drop");
  document.addEventListener("dragover", (event) => {
    const target = zone(event);
    if (!target) return;
    event.preventDefault();
    target.classList.add("ck-over");
  });
  document.addEventListener("dragleave", (event) => {
    const target = zone(event);
    if (target) target.classList.remove("ck-over");
  });
  document.addEventListener("drop", async (event) => {
    const target = zone(event);
    if (!target) return;
    event.preventDefault();
    target.classList.remove("ck-over");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry && item.webkitGetAsEntry()).filter(Boolean);
    const plain = named(event.dataTransfer.files);
    const files = entries.length ? (await Promise.all(entries.map(walk))).flat() : plain;
    sendAll(files.length ? files : plain);
  });
  document.addEventListener("click", (event) => {
    const target = zone(event);
    if (!target) return;
    const input = document.createElement("input");
    input.type = "file";
    input.multiple = true;
    input.webkitdirectory = event.target.closest("[data-folder]") !== null;
    input.onchange = () => sendAll(named(input.files));
    input.click();
  });
  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.classList && event.target.classList.contains("ck-drop")) {
      event.preventDefault();
      event.target.click();
    }
  });
})();
