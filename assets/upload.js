// Uploads from the drop zone: every file is one streamed POST; the files of one drop are one run.
(function () {
  "use strict";
  const say = (text, bad) => {
    const line = document.getElementById("upload-status");
    if (line) { line.textContent = text; line.classList.toggle("ck-bad", !!bad); }
  };

  function send(file, batch, done, total, before) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      const query = new URLSearchParams({ name: file.name, batch });
      request.open("POST", `/upload?${query}`);
      request.upload.onprogress = (event) => {
        const share = total ? Math.round((100 * (before + event.loaded)) / total) : 0;
        say(`${done} sent, sending ${file.name}: ${share} %`);
      };
      request.onerror = () => reject(new Error(`${file.name}: the connection broke`));
      request.onload = () => {
        let answer = {};
        try { answer = JSON.parse(request.responseText); } catch (error) { answer = { error: `the server answered ${request.status}` }; }
        if (request.status === 200) resolve(answer); else reject(new Error(`${file.name}: ${answer.error}`));
      };
      request.send(file);
    });
  }

  async function sendAll(files) {
    if (!files.length) return;
    const batch = `${Date.now().toString(36)}-${Math.random().toString(36).slice(2, 8)}`;
    const total = files.reduce((sum, file) => sum + file.size, 0);
    let before = 0;
    let answer = null;
    const failed = [];
    for (let at = 0; at < files.length; at += 1) {
      try {
        answer = await send(files[at], batch, `${at} of ${files.length}`, total, before);
      } catch (error) {
        failed.push(error.message);
      }
      before += files[at].size;
    }
    if (failed.length) say(failed.join("; "), true); else say(`${files.length} sent`);
    if (answer) window.dash_clientside.set_props("open-chosen", { data: { ref: files.length === 1 ? answer.ref : answer.folder, at: Date.now() } });
  }

  function walk(entry) {
    if (entry.isFile) return new Promise((resolve) => entry.file((file) => resolve([file]), () => resolve([])));
    return new Promise((resolve) => {
      const reader = entry.createReader();
      const found = [];
      const more = () => reader.readEntries(async (entries) => {
        if (!entries.length) { resolve(found); return; }
        for (const inner of entries) found.push(...(await walk(inner)));
        more();
      }, () => resolve(found));
      more();
    });
  }

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
    const plain = [...event.dataTransfer.files];
    const files = entries.length ? (await Promise.all(entries.map(walk))).flat() : plain;
    sendAll(files.length ? files : plain);
  });
  document.addEventListener("click", (event) => {
    const target = zone(event);
    if (!target) return;
    const input = document.createElement("input");
    input.type = "file";
    input.multiple = true;
    input.onchange = () => sendAll([...input.files]);
    input.click();
  });
  document.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && event.target.classList && event.target.classList.contains("ck-drop")) {
      event.preventDefault();
      event.target.click();
    }
  });
})();
