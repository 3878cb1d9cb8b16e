# Your own corpus: metrics of all rows → one table with a recommendation → the winner as a directory to search in. The
# configuration for these rules and those of the papers' tables is made in pretrieve/workflow/my_corpus.py.

# What programs that search are told, and the table, which knows the rows besides.
MY_SEARCH = my_corpus_rows.search_request(config, ROOT) if my_corpus.compares(config) else {}
MY_CORPUS = my_corpus_rows.table_request(config, ROOT) if MY_SEARCH else {}

if MY_CORPUS:

    MY_CROSS = paths.retriever_dir(ROOT, my_corpus_rows.CROSS, MY_SEARCH["trained_on"], "{seed}")

    rule my_corpus_hybrids:
        input:
            my_corpus_rows.metrics_of(MY_CORPUS, "bm25", *my_corpus_rows.DENSE),
        output:
            metrics=my_corpus_rows.metrics_of(MY_CORPUS, "hybrid"),
            weights=f"{ROOT}/hybrids.json",
        log:
            f"{ROOT}/logs/my_corpus_hybrids.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_hybrids.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["bm25"].threads
        resources:
            **NEEDS["bm25"].resources,
        params:
            code=stage_code("my_corpus_hybrids.py"),
            request=as_text(MY_CORPUS.copy),
        message:
            "Fusing BM25 with the dense rows"
        shell:
            "CUDA_VISIBLE_DEVICES= PRETRIEVE_MEMORY_MB={resources.mem_mb}"
            f" python {SCRIPTS}/my_corpus_hybrids.py"
            " --request {params.request} --out {output.weights} --threads {threads} --log {log}"

    rule my_corpus_rerank:
        input:
            bm25=paths.metrics_file(ROOT, my_corpus_rows.BM25, my_corpus.NAME, 0),
            model=[f"{MY_CROSS}/{file}" for file in RETRIEVER_FILES],
        output:
            paths.metrics_file(ROOT, my_corpus_rows.RERANKED, my_corpus.NAME, "{seed}"),
        log:
            f"{ROOT}/logs/my_corpus_rerank/seed{{seed}}.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_rerank-seed{{seed}}.tsv"
        conda:
            "../envs/gpu.yaml"
        threads: NEEDS["retrieve"].threads
        resources:
            **NEEDS["retrieve"].resources,
        params:
            code=stage_code("my_corpus_rerank.py"),
            request=as_text(MY_SEARCH.copy),
        message:
            "Reranking BM25's hits, seed {wildcards.seed}"
        shell:
            f"{LAUNCH} python {SCRIPTS}/my_corpus_rerank.py"
            " --request {params.request} --seed {wildcards.seed} --threads {threads} --log {log}"

    # One dense row stands for all in the speed of a question (one core, no GPU), for all have the start's body. A cross-encoder
    # is measured where there is one.
    rule my_corpus_speed:
        input:
            my_corpus_rows.metrics_of(MY_CORPUS, "bm25", "as-is"),
            cross=[f"{MY_CROSS}/pretrieve.json".format(seed=SEEDS[0])] if MY_SEARCH["reranks"] else [],
        output:
            f"{ROOT}/speed.json",
        log:
            f"{ROOT}/logs/my_corpus_speed.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_speed.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["bm25"].threads
        resources:
            **NEEDS["bm25"].resources,
        params:
            code=stage_code("my_corpus_speed.py"),
            request=as_text(MY_SEARCH.copy),
        message:
            "Measuring how long a question takes"
        shell:
            "CUDA_VISIBLE_DEVICES= PRETRIEVE_MEMORY_MB={resources.mem_mb}"
            f" python {SCRIPTS}/my_corpus_speed.py --request {{params.request}} --out {{output}} --threads 1 --log {{log}}"

    # Asked for by `make my-corpus` before the rest: what is built by then has counted the texts.
    rule my_corpus_plan:
        input:
            bm25=paths.metrics_file(ROOT, my_corpus_rows.BM25, my_corpus.NAME, 0),
            tasks=[f"{paths.task_dir(ROOT, task)}/stats.json" for task in {my_corpus.NAME, MY_CORPUS["trained_on"]}],
            store=MODELS.store_files(my_corpus.PUBLISHED),
        output:
            plan=f"{ROOT}/plan.yaml",
            timetable=f"{ROOT}/timetable.json",
        log:
            f"{ROOT}/logs/my_corpus_plan.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_plan.tsv"
        localrule: True
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["table"].threads
        resources:
            **NEEDS["table"].resources,
        params:
            code=stage_code("my_corpus_plan.py"),
            scale=config["scale"],
            folder=shlex.quote(str(config["my_corpus"])),
            options=as_argument(config["my_corpus_options"]),
            minutes=config["my_corpus_options"].get("minutes", 30),
            cores=workflow.cores or 0,
        message:
            "Planning {params.minutes} minutes"
        shell:
            f"python {SCRIPTS}/my_corpus_plan.py"
            " --scale {params.scale} --folder {params.folder} --options {params.options} --minutes {params.minutes}"
            " --cores {params.cores} --out {output.plan} --timetable {output.timetable} --log {log}"

    rule my_corpus_table:
        input:
            my_corpus_rows.table_inputs(MY_CORPUS),
            weights=rules.my_corpus_hybrids.output.weights,
            speed=rules.my_corpus_speed.output,
            template=code_file("src/pretrieve/reporting/templates/my_corpus.html.j2"),
        output:
            csv=f"{ROOT}/table.csv",
            md=f"{ROOT}/table.md",
            html=f"{ROOT}/table.html",
            choice=f"{ROOT}/choice.json",
        log:
            f"{ROOT}/logs/my_corpus_table.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_table.tsv"
        localrule: True
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["table"].threads
        resources:
            **NEEDS["table"].resources,
        params:
            code=stage_code("my_corpus_table.py"),
            request=as_text(MY_CORPUS.copy),
        message:
            f"Comparing all rows on {config['my_corpus']}"
        shell:
            f"python {SCRIPTS}/my_corpus_table.py"
            " --request {params.request} --weights {input.weights} --speed {input.speed} --csv {output.csv} --md {output.md}"
            " --html {output.html} --choice {output.choice} --log {log}"

    rule my_corpus_export:
        input:
            choice=rules.my_corpus_table.output.choice,
            tokenizer=DATA.tokenizer_of(my_corpus.NAME),
            # All that start from a published encoder start from the same one.
            card=MODELS.base_card(my_corpus.PUBLISHED),
        output:
            directory(f"{ROOT}/retriever"),
        log:
            f"{ROOT}/logs/my_corpus_export.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_export.tsv"
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["export"].threads
        resources:
            **NEEDS["export"].resources,
        params:
            code=stage_code("my_corpus_export.py"),
            request=as_text(MY_SEARCH.copy),
            licences=DATA.licences_of(MY_CORPUS["trained_on"]),
            base=MODELS.base_argument(my_corpus.PUBLISHED),
        message:
            "Deploying what was chosen: model, indexes and documents"
        shell:
            f"python {SCRIPTS}/my_corpus_export.py"
            " --choice {input.choice} --request {params.request} --tokenizer {input.tokenizer} --licences {params.licences}"
            " {params.base} --out {output} --log {log}"

else:

    rule my_corpus_plan:
        input:
            lambda wildcards: my_corpus.files_of(config, ROOT) or my_corpus.refuse_report(),
        output:
            f"{ROOT}/plan.yaml",
        log:
            f"{ROOT}/logs/my_corpus_plan.log",
        benchmark:
            f"{ROOT}/benchmarks/my_corpus_plan.tsv"
        localrule: True
        conda:
            "../envs/cpu.yaml"
        threads: NEEDS["table"].threads
        resources:
            **NEEDS["table"].resources,
        message:
            f"There are no questions to compare on. What can be searched: pretrieve search --index {ROOT}/retriever 'a question'"
        shell:
            "echo 'my_corpus_options: {{}}' > {output} 2> {log}"

    if config.get("my_corpus"):

        rule my_corpus_index:
            input:
                without_dates(DATA.corpus_raw_files(my_corpus.NAME)),
            output:
                directory(f"{ROOT}/retriever"),
            log:
                f"{ROOT}/logs/my_corpus_index.log",
            benchmark:
                f"{ROOT}/benchmarks/my_corpus_index/{my_corpus.NAME}.tsv"
            conda:
                "../envs/cpu.yaml"
            threads: NEEDS["bm25"].threads
            resources:
                **NEEDS["bm25"].resources,
            params:
                code=stage_code("index.py", entries=DATA.contents_of(DATA.corpus_raw_files(my_corpus.NAME))),
                language=config["bm25"]["language"],
                # Left by another corpus, which had questions: what they recommend is not in this retriever.
                others=[
                    f"{ROOT}/{name}" for name in ("table.csv", "table.md", "table.html", "choice.json", "hybrids.json")
                ],
            message:
                "Indexing the documents"
            shell:
                "rm -f {params.others}; PRETRIEVE_MEMORY_MB={resources.mem_mb}"
                f" python {SCRIPTS}/index.py"
                " --documents {input} --language {params.language} --out {output} --threads {threads} --log {log}"


rule my_corpus_report:
    input:
        lambda wildcards: my_corpus.files_of(config, ROOT) or my_corpus.refuse_report(),
    localrule: True
    message:
        f"The comparison is there: {ROOT}/table.md" if MY_CORPUS else f"The documents can be searched: {ROOT}/retriever"
