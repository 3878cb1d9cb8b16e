# Benchmarks → tasks (Parquet and token stores): one rule for each reader, one job for each data set.

TASK_OUTPUTS = [f"{ROOT}/tasks/{{dataset}}/{name}" for name in paths.TASK_FILES]
EXAMPLE_OUTPUTS = [f"{ROOT}/tasks/{{dataset}}/{name}" for name in paths.EXAMPLE_FILES]


rule task_squad:
    input:
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        train=lambda wildcards: raw_files(wildcards.dataset)["train"],
        dev=lambda wildcards: raw_files(wildcards.dataset)["dev"],
        test=lambda wildcards: raw_files(wildcards.dataset)["test"],
        corpus=lambda wildcards: open_corpus(wildcards.dataset),
        code=stage_sources("task.py"),
    output:
        TASK_OUTPUTS,
        f"{ROOT}/tasks/{{dataset}}/answers.parquet",
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(
            name for name in datasets_read_by("squad") if "file" not in raw_files(name)
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["task"].threads
    resources:
        **NEEDS["task"].resources,
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
        open=lambda wildcards, input: open_argument(wildcards.dataset, input.corpus),
    message:
        "Reading the questions of {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/task.py"
        " squad --tokenizer {input.tokenizer} --train {input.train:q} --dev {input.dev:q}"
        " --test {input.test:q} --sizes {params.sizes} {params.open} --out {params.out} --log {log}"


rule task_one_file:
    input:
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        questions=lambda wildcards: raw_files(wildcards.dataset)["file"],
        corpus=lambda wildcards: open_corpus(wildcards.dataset),
        code=stage_sources("task.py"),
    output:
        TASK_OUTPUTS,
        f"{ROOT}/tasks/{{dataset}}/answers.parquet",
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(
            name
            for reader in ("squad", "natural-questions")
            for name in datasets_read_by(reader)
            if "file" in raw_files(name)
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["task"].threads
    resources:
        **NEEDS["task"].resources,
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        reader=lambda wildcards: config["datasets"][wildcards.dataset]["reader"],
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
        open=lambda wildcards, input: open_argument(wildcards.dataset, input.corpus),
    message:
        "Drawing the parts of {wildcards.dataset} from one file"
    shell:
        f"python {SCRIPTS}/task.py"
        " {params.reader} --tokenizer {input.tokenizer} --file {input.questions:q}"
        " --sizes {params.sizes} {params.open} --out {params.out} --log {log}"


rule task_multireqa:
    input:
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        candidates=lambda wildcards: raw_files(wildcards.dataset)["candidates"],
        texts=lambda wildcards: raw_files(wildcards.dataset)["texts"],
        code=stage_sources("task.py"),
    output:
        TASK_OUTPUTS,
        f"{ROOT}/tasks/{{dataset}}/answers.parquet",
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(datasets_read_by("multireqa")),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["task"].threads
    resources:
        **NEEDS["task"].resources,
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
        role=lambda wildcards: shlex.quote(
            config["datasets"][wildcards.dataset]
            .get("reader_options", {})
            .get("role", "test")
        ),
    message:
        "Reading the sentences of {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/task.py"
        " multireqa --tokenizer {input.tokenizer} --candidates {input.candidates:q}"
        " --texts {input.texts:q} --role {params.role} --sizes {params.sizes} --out {params.out} --log {log}"


rule task_descriptions:
    input:
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        tables=lambda wildcards: corpus_files(
            articles_of(config, wildcards.dataset), "articles", "sections", "passages"
        ),
        code=stage_sources("task.py"),
    output:
        TASK_OUTPUTS,
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(datasets_read_by("descriptions")),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["task"].threads
    resources:
        **NEEDS["task"].resources,
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        corpus=lambda wildcards, input: folder_of(input.tables),
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
        options=lambda wildcards: task_options(wildcards.dataset),
    message:
        "Making description-to-lead pairs: {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/task.py"
        " descriptions --tokenizer {input.tokenizer} --corpus {params.corpus}"
        " --sizes {params.sizes} {params.options} --out {params.out} --log {log}"


rule task_fanoutqa:
    input:
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        tables=lambda wildcards: corpus_files(
            articles_of(config, wildcards.dataset), "articles", "sections", "passages"
        ),
        questions=PLAN.source_file("fanoutqa-dev"),
        code=stage_sources("task.py"),
    output:
        TASK_OUTPUTS,
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(datasets_read_by("fanoutqa")),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["task"].threads
    resources:
        **NEEDS["task"].resources,
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        corpus=lambda wildcards, input: folder_of(input.tables),
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
    message:
        "Reading the human questions of {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/task.py"
        " fanoutqa --tokenizer {input.tokenizer} --corpus {params.corpus}"
        " --questions {input.questions:q} --sizes {params.sizes} --out {params.out} --log {log}"


rule example_task_corpus:
    input:
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        tables=lambda wildcards: corpus_files(
            articles_of(config, wildcards.dataset),
            "articles",
            "sections",
            "passages",
            "links",
        ),
        code=stage_sources("example_task.py"),
    output:
        EXAMPLE_OUTPUTS,
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(
            name
            for reader in ("structure-sts", "section-triplets", "link-clicks")
            for name in datasets_read_by(reader)
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["task"].threads
    resources:
        **NEEDS["task"].resources,
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        reader=lambda wildcards: config["datasets"][wildcards.dataset]["reader"],
        corpus=lambda wildcards, input: folder_of(input.tables),
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
        options=lambda wildcards: task_options(wildcards.dataset),
    message:
        "Making examples of {params.reader}: {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/example_task.py"
        " {params.reader} --tokenizer {input.tokenizer} --corpus {params.corpus}"
        " --sizes {params.sizes} {params.options} --out {params.out} --log {log}"


rule example_task_questions:
    input:
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        train=lambda wildcards: raw_files(wildcards.dataset)["train"],
        dev=lambda wildcards: raw_files(wildcards.dataset)["dev"],
        test=lambda wildcards: raw_files(wildcards.dataset)["test"],
        code=stage_sources("example_task.py"),
    output:
        EXAMPLE_OUTPUTS,
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(datasets_read_by("question-entailment")),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["task"].threads
    resources:
        **NEEDS["task"].resources,
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
    message:
        "Making question and sentence pairs of {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/example_task.py"
        " question-entailment --tokenizer {input.tokenizer} --train {input.train:q}"
        " --dev {input.dev:q} --test {input.test:q} --sizes {params.sizes} --out {params.out} --log {log}"


rule example_task_files:
    input:
        lambda wildcards: list(raw_files(wildcards.dataset).values()),
        tokenizer=lambda wildcards: tokenizer_of(wildcards.dataset),
        code=stage_sources("example_task.py"),
    output:
        EXAMPLE_OUTPUTS,
    log:
        f"{ROOT}/logs/task/{{dataset}}.log",
    benchmark:
        f"{ROOT}/benchmarks/task/{{dataset}}.tsv"
    wildcard_constraints:
        dataset=PLAN.alternation(
            name for reader in OFFICIAL_READERS for name in datasets_read_by(reader)
        ),
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["task"].threads
    resources:
        **NEEDS["task"].resources,
    params:
        out=f"{ROOT}/tasks/{{dataset}}",
        reader=lambda wildcards: config["datasets"][wildcards.dataset]["reader"],
        files=lambda wildcards: named_files(wildcards.dataset),
        sizes=lambda wildcards: size_arguments(wildcards.dataset),
        options=lambda wildcards: official_options(wildcards.dataset),
    message:
        "Reading the official files of {wildcards.dataset}"
    shell:
        f"python {SCRIPTS}/example_task.py"
        " {params.reader} --tokenizer {input.tokenizer} --files {params.files}"
        " --sizes {params.sizes} {params.options} --out {params.out} --log {log}"
