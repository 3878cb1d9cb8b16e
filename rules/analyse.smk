# Encoders, and retrievers made of them → numbers behind the papers' figures. One job for each analysis: a job's start
# costs more than one model's measurement, and all models of a figure see the same texts.

ANALYSES = analysis_plan.analyses(config)


rule analyses:
    input:
        [paths.analysis_file(ROOT, name) for name in ANALYSES],
    localrule: True
    message:
        f"All analyses are there: {ROOT}/analyses"


for analysis_name in ANALYSES:
    MEASURED = analysis_plan.models(config, analysis_name, ROOT)

    rule:
        name:
            f"analyse_{analysis_name}"
        input:
            # All models of an analysis have one vocabulary; the texts are from the first one's corpus.
            store=MODELS.store_files(MEASURED[0].encoder),
            # A function: of a thousand seeds these are 24,000 files, and few runs make an analysis.
            models=lambda _, looked=MEASURED: [f"{m.directory}/{f}" for m, f in product(looked, RETRIEVER_FILES)],
        output:
            paths.analysis_file(ROOT, analysis_name),
        log:
            f"{ROOT}/logs/analyse/{analysis_name}.log",
        benchmark:
            f"{ROOT}/benchmarks/analyse/{analysis_name}.tsv"
        conda:
            "../envs/gpu.yaml"
        threads: NEEDS["analyse"].threads
        resources:
            **NEEDS["analyse"].resources,
        params:
            code=stage_code("analyse.py"),
            store=subpath(input.store, parent=True),
            analysis=analysis_name,
            options=as_argument(analysis_plan.program_options(config, analysis_name)),
            encoders=[model.encoder for model in MEASURED],
            seeds=[model.seed for model in MEASURED],
            stages=[model.stage for model in MEASURED],
            directories=[model.directory for model in MEASURED],
        message:
            f"Analysis {analysis_name}"
        shell:
            f"{LAUNCH} python {SCRIPTS}/analyse.py"
            " {params.analysis} --store {params.store} --options {params.options} --directories {params.directories}"
            " --encoders {params.encoders} --seeds {params.seeds} --stages {params.stages} --threads {threads} --out {output}"
            " --log {log}"
