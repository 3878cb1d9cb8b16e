"""pretrieve: from raw text to the result tables of papers on pre-training for dense retrieval.

snakemake                                   all tables of config.yaml
snakemake -n                                what would be done
snakemake encoders                          every encoder of config.yaml
snakemake retrievers                        everything that any table has fine-tuned, whether the table is built or not
snakemake analyses                          the numbers behind the papers' figures
snakemake results/demo/tables/pretraining_tasks/table3.csv
snakemake results/demo/figures/seed_encoder/figure6.svg
snakemake results/demo/report.html            all tables and figures of config.yaml, claims, and the report on them
snakemake my_corpus_report --config my_corpus=DIR    objectives compared on your own corpus (docs/your-own-corpus.md)
"""

from snakemake.utils import min_version

min_version("9.0")


include: "rules/before_config.smk"


# Laid over the code's own config.yaml and config/ (rules/common.smk).
if OWN_CONFIG:

    configfile: "config.yaml"


report: "docs/captions/workflow.rst"


include: "rules/common.smk"
include: "rules/sources.smk"
include: "rules/corpus.smk"
include: "rules/tasks.smk"
include: "rules/pretrain.smk"
include: "rules/finetune.smk"
include: "rules/retrieve.smk"
include: "rules/export.smk"
include: "rules/analyse.smk"
include: "rules/report.smk"
include: "rules/my_corpus.smk"


# On a cluster these run where Snakemake runs, with fetch_*: they take seconds, and need the files of all others.
localrules:
    all,
    encoders,
    retrievers,
    table,
    claims,
    league,
    report,


rule all:
    default_target: True
    input:
        whole_run,
    message:
        f"All is there: {ROOT}"


rule encoders:
    input:
        lambda wildcards: [f"{paths.encoder_dir(ROOT, *one)}/config.json" for one in product(config["encoders"], SEEDS)],
    message:
        f"All encoders are there: {ROOT}/encoders"


rule retrievers:
    input:
        lambda wildcards: [f"{directory}/pretrieve.json" for directory in PLAN.retrievers()],
    message:
        f"All that tables and figures have fine-tuned is there: {ROOT}/retrievers"


onstart:
    try:
        check_run_folders(ROOT)
        check_mirror(config)
    except PretrieveError as error:
        refuse(error)


onsuccess:
    if WHOLE_RUN:
        forget_finished(ROOT)
    elapsed = f"{time.time() - STARTED:.0f}"
    report = f"report-time --results {shlex.quote(ROOT)} --since {STARTED} --elapsed {elapsed}"
    # Also beside a container. A finished run stays a success if its times cannot be told, as after the clock was put back.
    shell(
        f"{{sys.executable:q}} -m pretrieve {report} || echo All is made, but its times cannot be told: see above. >&2"
    )


onerror:
    print(HELP_ON_ERROR, file=sys.stderr)
